package restore

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/kube/waits"
)

// TestAcceptGraph_NotReady restores an operator that never runs, and what its webhook has to admit: the restore says
// what it waits for, and goes on after a while.
func TestAcceptGraph_NotReady(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns, group := unique(t, "operator"), unique(t, "g")+".example.com"
	o := newOperator(t, c, ns)
	definition, configuration := widgetCRD(group, "widgets", "Widget"), o.configuration(ns, group, "*")
	for _, one := range []thing{configuration, definition} {
		t.Cleanup(func() { c.call(http.MethodDelete, pathOf(one, true), "", nil) })
	}
	things := append(o.things(), definition, configuration, in("widgets."+group, group+"/v1", "Widget", ns, "w", nil))
	options := testOptions()
	options.ResourceTimeout, options.OutageTimeout = 6*time.Second, time.Second
	list, ended := waits.New(), make(chan *Result, 1)
	go func() {
		result, err := c.restoreWith(waits.With(t.Context(), list), pack(t, things...), newRestore("r", nil), options)
		require.NoError(t, err)
		ended <- result
	}()
	id := "validatingwebhookconfigurations.admissionregistration.k8s.io/" + ns
	require.Eventually(t, func() bool {
		oldest, _ := list.Longest()
		return len(oldest) == 1 && strings.HasPrefix(oldest[0].For, id+" to be ready until ") &&
			strings.HasSuffix(oldest[0].For, ", so that what needs it can be restored; all such waits share 6s") &&
			oldest[0].Because == "service "+ns+"/hooks has no ready endpoint"
	}, 5*time.Minute, 20*time.Millisecond)
	result := <-ended
	require.Equal(t, []string{id + " is not ready after 6s of waits (service " + ns + "/hooks has no ready endpoint); " +
		"what needs it is restored nevertheless"}, result.Results.Warnings.Cluster)
	require.Equal(t, 1, result.Results.Errors.Count(), "%+v", result.Results.Errors)
	require.Contains(t, result.Results.Errors.Namespaces[ns][0], "widgets."+group+"/"+ns+"/w")
	require.Contains(t, result.Results.Errors.Namespaces[ns][0], "has failed every request")
	require.Contains(t, created(result, ""), "Deployment "+ns+"/operator")
}

// TestAcceptGraph_WebhookInTheCluster restores an operator whose webhook the cluster already has, so that the objects
// of the backup are refused at first.
func TestAcceptGraph_WebhookInTheCluster(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns, group := unique(t, "operator"), unique(t, "g")+".example.com"
	o := newOperator(t, c, ns)
	definition, configuration := widgetCRD(group, "widgets", "Widget"), o.configuration(ns, group, "*")
	for _, one := range []thing{configuration, definition} {
		c.create(one, "test")
		t.Cleanup(func() { c.call(http.MethodDelete, pathOf(one, true), "", nil) })
	}
	c.create(namespaceThing(ns, nil), "test")
	widget := in("widgets."+group, group+"/v1", "Widget", ns, "w", nil)
	c.awaitRefusal(widget, "failed calling webhook")
	things := slices.Concat(o.things()[1:], []thing{widget})
	options := testOptions()
	options.OutageTimeout = time.Second
	list, ended := waits.New(), make(chan *Result, 1)
	go func() {
		result, err := c.restoreWith(waits.With(t.Context(), list), pack(t, things...), newRestore("r", nil), options)
		require.NoError(t, err)
		ended <- result
	}()
	require.Eventually(t, func() bool {
		oldest, _ := list.Longest()
		return len(oldest) == 1 && strings.HasPrefix(oldest[0].For, "service "+ns+"/hooks to be ready")
	}, 5*time.Minute, 20*time.Millisecond)
	o.run()
	result := <-ended
	require.Zero(t, result.Results.Errors.Count()+result.Results.Warnings.Count(), "%+v", result.Results)
	require.Len(t, created(result, ""), len(things))
}

// TestAcceptGraph_Claims restores pods with claims: one is bound before its pod, and two are never bound, by a class
// that waits for pods and by one that does not.
func TestAcceptGraph_Claims(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns := unique(t, "claims")
	class := func(name, mode string) thing {
		one := in("storageclasses.storage.k8s.io", "storage.k8s.io/v1", "StorageClass", "", ns+name,
			obj{"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": mode})
		t.Cleanup(func() { c.call(http.MethodDelete, pathOf(one, true), "", nil) })
		return one
	}
	claim := func(name, class string) thing {
		return in("persistentvolumeclaims", "v1", "PersistentVolumeClaim", ns, name, obj{"spec": obj{
			"accessModes": []string{"ReadWriteOnce"}, "storageClassName": ns + class,
			"resources": obj{"requests": obj{"storage": "1Gi"}}}})
	}
	pod := func(name string) thing {
		return in("pods", "v1", "Pod", ns, name, obj{"spec": obj{
			"containers": []obj{{"name": "c", "image": "i"}},
			"volumes":    []obj{{"name": "v", "persistentVolumeClaim": obj{"claimName": name}}}}})
	}
	things := []thing{
		namespaceThing(ns, nil), class("-now", "Immediate"), class("-never", "Immediate"),
		class("-later", "WaitForFirstConsumer"), claim("now", "-now"), claim("never", "-never"), claim("later", "-later"),
		claim("alone", "-never"), in("serviceaccounts", "v1", "ServiceAccount", ns, "default", nil),
		pod("now"), pod("never"), pod("later"),
	}
	options := testOptions()
	options.ResourceTimeout = 20 * time.Second
	ended := make(chan *Result, 1)
	go func() {
		result, err := c.restore(pack(t, things...), newRestore("r", nil), options)
		require.NoError(t, err)
		ended <- result
	}()
	c.await(pod("later"))
	require.Nil(t, c.live(pod("now")))
	volume := in("persistentvolumes", "v1", "PersistentVolume", "", ns, obj{"spec": obj{
		"accessModes": []string{"ReadWriteOnce"}, "storageClassName": ns + "-now", "capacity": obj{"storage": "1Gi"},
		"claimRef": obj{"namespace": ns, "name": "now"}, "hostPath": obj{"path": "/none"}}})
	c.create(volume, "test")
	t.Cleanup(func() { c.call(http.MethodDelete, pathOf(volume, true), "", nil) })
	c.await(pod("now"))
	require.Equal(t, "Bound", dig(c.live(claim("now", "")), "status", "phase"))
	require.Nil(t, c.live(pod("never")))
	result := <-ended
	require.Zero(t, result.Results.Errors.Count(), "%+v", result.Results)
	require.Equal(t, []string{"persistentvolumeclaims/" + ns + "/never is not ready after 20s of waits (its storage " +
		"class binds at once, and it is not bound); what needs it is restored nevertheless"},
		result.Results.Warnings.Namespaces[ns])
	require.NotNil(t, c.live(pod("never")))
}
