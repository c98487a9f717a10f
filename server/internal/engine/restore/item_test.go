package restore

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/plan"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

// TestAcceptRestore_BadArchives restores archives that contain invalid objects. Each leads to an error with its path
// and the problem; the other objects are restored.
func TestAcceptRestore_BadArchives(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	tests := map[string]struct{ body, says string }{
		"no kind":       {`{"apiVersion":"v1","metadata":{"name":"x","namespace":"NS"}}`, `it has no "kind"`},
		"no apiVersion": {`{"kind":"ConfigMap","metadata":{"name":"x","namespace":"NS"}}`, `it has no "apiVersion"`},
		"bad apiVersion": {`{"apiVersion":"a/b/c","kind":"ConfigMap","metadata":{"name":"x","namespace":"NS"}}`,
			`apiVersion "a/b/c"`},
		"no metadata":        {`{"apiVersion":"v1","kind":"ConfigMap"}`, `it has no "metadata.name"`},
		"null metadata":      {`{"apiVersion":"v1","kind":"ConfigMap","metadata":null}`, `it has no "metadata.name"`},
		"metadata of a list": {`{"apiVersion":"v1","kind":"ConfigMap","metadata":[]}`, "metadata: want an object, got ["},
		"no JSON":            {`hello`, "invalid JSON at byte 0"},
		"cut JSON":           {`{"apiVersion":"v1","kind":"Conf`, "invalid JSON"},
		"empty":              {``, "invalid JSON"},
		"a list":             {`[]`, "invalid JSON"},
		"two objects":        {`{} {}`, "invalid JSON"},
		"another name": {`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"y","namespace":"NS"}}`,
			`want the one that its path names`},
		"another namespace": {`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"kube-system"}}`,
			`want the one that its path names`},
		"another kind": {`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x","namespace":"NS"}}`,
			`a "Secret" is not one of configmaps, want a ConfigMap`},
		"another group":      {`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"x","namespace":"NS"}}`, `"rbac.authorization.k8s.io/v1 RoleBinding NS x"`},
		"a list of its kind": {`{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"name":"x","namespace":"NS"},"items":[]}`, `a "ConfigMapList" is not one of configmaps`},
		"only generateName": {`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"x","namespace":"NS"}}`,
			`want the one that its path names`},
		"labels of numbers": {`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"NS","labels":{"a":1}}}`, "metadata.labels"},
		"nested without end": {`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"NS"},"data":` +
			strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + `}`, "exceeded max depth"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := unique(t, "bad")
			bad := configMap(ns, "x", nil)
			bad.body = []byte(strings.ReplaceAll(tt.body, "NS", ns))
			good := configMap(ns, "good", nil)
			result := c.mustRestore(pack(t, namespaceThing(ns, nil), bad, good), newRestore("r", nil))
			require.ElementsMatch(t, []string{"Namespace " + ns, "ConfigMap " + ns + "/good"}, created(result, ""))
			require.Equal(t, 1, result.Results.Errors.Count(), "%+v", result.Results.Errors)
			require.Contains(t, result.Results.Errors.Namespaces[ns][0],
				fmt.Sprintf("error decoding %q", "resources/configmaps/namespaces/"+ns+"/x.json"))
			require.Contains(t, result.Results.Errors.Namespaces[ns][0], strings.ReplaceAll(tt.says, "NS", ns))
		})
	}
	t.Run("no folder of resources", func(t *testing.T) {
		t.Parallel()
		var packed bytes.Buffer
		zip := gzip.NewWriter(&packed)
		w := tar.NewWriter(zip)
		require.NoError(t, w.WriteHeader(&tar.Header{Name: "metadata/version", Size: 6, Typeflag: tar.TypeReg}))
		_, err := w.Write([]byte("1.1.0\n"))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.NoError(t, zip.Close())
		backup, err := archive.Open(t.Context(), &packed, t.TempDir(), archive.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, backup.Close()) })
		result := c.mustRestore(backup, newRestore("r", nil))
		require.Zero(t, result.ResourceList.Len())
		require.Zero(t, result.Results.Errors.Count())
		require.Len(t, result.Results.Warnings.Velero, 1)
		require.Contains(t, result.Results.Warnings.Velero[0], "holds no objects")
	})
	t.Run("type that no cluster serves", func(t *testing.T) {
		t.Parallel()
		ns := unique(t, "bad")
		result := c.mustRestore(pack(t, namespaceThing(ns, nil), configMap(ns, "good", nil),
			in("gadgets.example.com", "example.com/v1", "Gadget", ns, "g", nil)), newRestore("r", nil))
		require.Len(t, result.Results.Errors.Namespaces[ns], 1)
		require.Contains(t, result.Results.Errors.Namespaces[ns][0], "gadgets.example.com/"+ns+
			"/g: the cluster does not serve gadgets in example.com/v1")
		require.Contains(t, entries(result, "example.com/v1/Gadget"), ns+"/g(failed)")
	})
	t.Run("another scope", func(t *testing.T) {
		t.Parallel()
		ns := unique(t, "bad")
		role := in("clusterroles.rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1", "ClusterRole", ns, ns, nil)
		outside := configMap("", ns, nil)
		other := namespaceThing(ns+"-other", nil)
		other.namespace, other.body = ns, []byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+other.name+
			`","namespace":"`+ns+`"}}`)
		result := c.mustRestore(pack(t, namespaceThing(ns, nil), configMap(ns, "good", nil), role, outside, other),
			newRestore("r", nil))
		require.ElementsMatch(t, []string{"Namespace " + ns, "ConfigMap " + ns + "/good"}, created(result, ""))
		require.Len(t, result.Results.Errors.Namespaces[ns], 2, "%+v", result.Results.Errors)
		require.Contains(t, result.Results.Errors.Namespaces[ns][0],
			"clusterroles.rbac.authorization.k8s.io are in no namespace")
		require.Contains(t, result.Results.Errors.Namespaces[ns][1], "namespaces are in no namespace")
		require.Len(t, result.Results.Errors.Cluster, 1)
		require.Contains(t, result.Results.Errors.Cluster[0], "configmaps are in namespaces")
	})
	t.Run("another definition than its own", func(t *testing.T) {
		t.Parallel()
		ns := unique(t, "bad")
		// no such resource
		alias := in("bindings.rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "", ns, nil)
		result := c.mustRestore(pack(t, alias), newRestore("r", nil))
		require.Empty(t, created(result, ""))
		require.Len(t, result.Results.Errors.Cluster, 1, "%+v", result.Results.Errors)
		require.Contains(t, result.Results.Errors.Cluster[0],
			"is one of clusterrolebindings.rbac.authorization.k8s.io, not of bindings.rbac.authorization.k8s.io")
	})
	t.Run("namespace object that cannot be read", func(t *testing.T) {
		t.Parallel()
		ns := unique(t, "bad")
		broken := namespaceThing(ns, nil)
		broken.body = []byte(`{"kind":`)
		result := c.mustRestore(pack(t, broken, configMap(ns, "good", nil)), newRestore("r", nil))
		require.ElementsMatch(t, []string{"Namespace " + ns, "ConfigMap " + ns + "/good"}, created(result, ""))
		require.Len(t, result.Results.Warnings.Namespaces[ns], 1, "%+v", result.Results)
		require.Len(t, result.Results.Errors.Cluster, 1, "%+v", result.Results)
	})
}

func TestUnsupportedRequestsAreWarnings(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns := unique(t, "hook")
	yes := true
	pod := in("pods", "v1", "Pod", ns, "p", obj{
		"spec": obj{"serviceAccountName": "runner", "containers": []obj{{"name": "c", "image": "i"}}},
	})
	result := c.mustRestore(pack(t, namespaceThing(ns, nil), in("serviceaccounts", "v1", "ServiceAccount", ns, "runner",
		nil), pod), newRestore("r", func(s *velerov1.RestoreSpec) {
		s.RestorePVs = &yes
		s.Hooks.Resources = []velerov1.RestoreResourceHookSpec{
			{Name: "a", ExcludedResources: []string{"jobs"},
				PostHooks: []velerov1.RestoreResourceHook{{Exec: &velerov1.ExecRestoreHook{Command: []string{"x"}}}}},
			{Name: "b", PostHooks: []velerov1.RestoreResourceHook{{Init: &velerov1.InitRestoreHook{}}}},
		}
		s.UploaderConfig = &velerov1.UploaderConfigForRestore{} // without any settings
	}))
	require.Zero(t, result.Results.Errors.Count(), "%+v", result.Results.Errors)
	require.Len(t, result.Results.Warnings.Velero, 1,
		"the backup has no data of volumes that spec.restorePVs could ask for")
	require.Equal(t, result.Results.Warnings.Velero, result.Gaps)
	require.Contains(t, result.Gaps[0], "spec.hooks.resources[].excludedResources: ")
}

func TestVolumesWithoutTheirData(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	p := unique(t, "v")
	ns, target := p+"-a", p+"-b"
	volume := func(name, policy string) thing {
		return in("persistentvolumes", "v1", "PersistentVolume", "", p+name, obj{
			"metadata": obj{"annotations": obj{"pv.kubernetes.io/bound-by-controller": "yes", "keep": "me"}},
			"spec": obj{
				"capacity": obj{"storage": "1Gi"}, "accessModes": []string{"ReadWriteOnce"},
				"persistentVolumeReclaimPolicy": policy,
				"claimRef": obj{"kind": "PersistentVolumeClaim", "namespace": ns, "name": name, "uid": "u",
					"resourceVersion": "3"},
				"csi": obj{"driver": "example.com", "volumeHandle": name},
			},
		})
	}
	claim := func(namespace, name string) thing {
		return in("persistentvolumeclaims", "v1", "PersistentVolumeClaim", namespace, name, obj{
			"metadata": obj{"annotations": obj{"pv.kubernetes.io/bind-completed": "yes"}},
			"spec": obj{
				"accessModes": []string{"ReadWriteOnce"}, "resources": obj{"requests": obj{"storage": "1Gi"}}, "volumeName": p +
					name, "storageClassName": "",
			},
			"status": obj{"phase": "Bound"},
		})
	}
	result := c.mustRestore(pack(t, namespaceThing(ns, nil), volume("lost", "Delete"), volume("kept", "Retain"),
		claim(ns, "lost"), claim(ns, "kept"),
		in("datauploads.velero.io", "velero.io/v2alpha1", "DataUpload", ns, "du", nil),
	), newRestore("r", func(s *velerov1.RestoreSpec) { s.NamespaceMapping = map[string]string{ns: target} }))
	require.Nil(t, c.live(volume("lost", "Delete")))
	require.Len(t, result.Results.Warnings.Cluster, 1)
	require.Contains(t, result.Results.Warnings.Cluster[0], "persistentvolumes/"+p+"lost has reclaim policy Delete")
	require.Equal(t, 1, result.Results.Errors.Count(), "%+v", result.Results.Errors)
	require.Contains(t, result.Results.Errors.Namespaces[target][0], "datauploads.velero.io/"+target+"/du is left out")

	kept := c.live(volume("kept", "Retain"))
	require.Equal(t, target, dig(kept, "spec", "claimRef", "namespace"))
	require.NotEqual(t, "u", dig(kept, "spec", "claimRef", "uid"))
	require.Equal(t, "me", dig(kept, "metadata", "annotations", "keep"))
	require.Equal(t, p+"kept", dig(c.live(claim(target, "kept")), "spec", "volumeName"))
	require.Nil(t, dig(c.live(claim(target, "lost")), "spec", "volumeName"))
}

func TestStatusIsRestoredOnRequest(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	group, ns := unique(t, "g")+".example.com", unique(t, "st")
	with, without := widgetCRD(group, "widgets", "Widget"), widgetCRD(group, "gadgets", "Gadget")
	var crd obj
	require.NoError(t, json.Unmarshal(without.body, &crd))
	delete(dig(crd, "spec", "versions").([]any)[0].(obj), "subresources")
	without.body, _ = json.Marshal(crd)
	custom := func(plural, kind, name, annotation string) thing {
		extra := obj{"spec": obj{"a": 1}, "status": obj{"phase": "Done"}}
		if annotation != "" {
			extra["metadata"] = obj{"annotations": obj{"velero.io/restore-status": annotation}}
		}
		return in(plural+"."+group, group+"/v1", kind, ns, name, extra)
	}
	things := []thing{
		namespaceThing(ns, nil), with, without,
		custom("widgets", "Widget", "plain", ""), custom("widgets", "Widget", "no", "false"), custom("widgets", "Widget",
			"odd", "maybe"),
		custom("gadgets", "Gadget", "plain", ""), custom("gadgets", "Gadget", "yes", " TRUE "),
	}
	restored := func(name string, spec *velerov1.RestoreStatusSpec) map[string]bool {
		result := c.mustRestore(pack(t, things...), newRestore(name, func(s *velerov1.RestoreSpec) {
			s.RestoreStatus = spec
			s.NamespaceMapping = map[string]string{ns: ns + name}
		}))
		require.Zero(t, result.Results.Errors.Count(), "%+v", result.Results)
		got := map[string]bool{}
		for _, one := range things[3:] {
			one.namespace = ns + name
			got[strings.SplitN(one.gr, ".", 2)[0]+"/"+one.name] = dig(c.live(one), "status", "phase") == "Done"
		}
		return got
	}
	require.Equal(t, map[string]bool{"widgets/plain": false, "widgets/no": false, "widgets/odd": false,
		"gadgets/plain": false, "gadgets/yes": true},
		restored("nothing", nil))
	require.Equal(t, map[string]bool{"widgets/plain": true, "widgets/no": false, "widgets/odd": true,
		"gadgets/plain": true, "gadgets/yes": true},
		restored("all", &velerov1.RestoreStatusSpec{}))
	require.Equal(t, map[string]bool{"widgets/plain": true, "widgets/no": false, "widgets/odd": true,
		"gadgets/plain": false, "gadgets/yes": true},
		restored("some", &velerov1.RestoreStatusSpec{IncludedResources: []string{"widgets." + group}}))
}

// TestRequiredStatus restores objects of a definition without the status subresource whose schema requires a status.
func TestRequiredStatus(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	group, ns := unique(t, "g")+".example.com", unique(t, "st")
	definition := widgetCRD(group, "crates", "Crate")
	var crd obj
	require.NoError(t, json.Unmarshal(definition.body, &crd))
	version := dig(crd, "spec", "versions").([]any)[0].(obj)
	delete(version, "subresources")
	version["schema"] = obj{"openAPIV3Schema": obj{"type": "object", "required": []string{"status"}, "properties": obj{
		"spec":   obj{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
		"status": obj{"type": "object", "required": []string{"phase"}, "properties": obj{"phase": obj{"type": "string"}}},
	}}}
	definition.body, _ = json.Marshal(crd)
	crate := func(name, status string) thing {
		extra := obj{"spec": obj{"a": 1}}
		if status != "" {
			extra["status"] = obj{"phase": status}
		}
		return in("crates."+group, group+"/v1", "Crate", ns, name, extra)
	}
	things := []thing{namespaceThing(ns, nil), definition, crate("without", "")}
	for i := range 20 {
		things = append(things, crate(fmt.Sprintf("c%02d", i), "Done"))
	}
	restore := func(name string, status *velerov1.RestoreStatusSpec) *Result {
		return c.mustRestore(pack(t, things...), newRestore(name, func(s *velerov1.RestoreSpec) { s.RestoreStatus = status }))
	}

	result := restore("plain", nil)
	require.Equal(t, 21, result.Results.Errors.Count())
	hint := "its definition requires a status, which is restored only on request: add crates." + group +
		" to spec.restoreStatus.includedResources (--status-include-resources)"
	for _, message := range result.Results.Errors.Namespaces[ns] {
		require.Contains(t, message, "status: Required value")
		require.Equal(t, !strings.Contains(message, "/without: "), strings.Contains(message, hint), message)
	}

	result = restore("with", &velerov1.RestoreStatusSpec{IncludedResources: []string{"crates." + group}})
	require.Len(t, result.Results.Errors.Namespaces[ns], 1, "%+v", result.Results)
	require.Contains(t, result.Results.Errors.Namespaces[ns][0], "/without: ")
	for _, one := range things[3:] {
		require.Equal(t, "Done", dig(c.live(one), "status", "phase"), one.name)
	}
}

func TestMappingOfTwoNamespacesToOneObject(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	p := unique(t, "map")
	result := c.mustRestore(pack(t, configMap(p+"-a", "same", nil), configMap(p+"-b", "same", nil)),
		newRestore("r", func(s *velerov1.RestoreSpec) {
			s.NamespaceMapping = map[string]string{p + "-a": p, p + "-b": p}
		}))
	require.Equal(t, []string{p + "/same(created)"}, entries(result, "v1/ConfigMap"))
	require.Len(t, result.Results.Warnings.Namespaces[p], 1, "the object that is not restored is reported")
}

func TestGeneratedNamesAreListed(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns := unique(t, "gen")
	action := &fakeAction{name: "a/b", execute: func(in restoreitemaction.Input) (*restoreitemaction.Result, error) {
		return mutate(in, func(o obj) {
			meta := o["metadata"].(obj)
			delete(meta, "name")
			meta["generateName"] = "made-"
		})
	}}
	result := c.mustRestore(pack(t, configMap(ns, "x", nil)), newRestore("r", nil), action)
	require.Len(t, entries(result, "v1/ConfigMap"), 1)
	name, ok := strings.CutSuffix(entries(result, "v1/ConfigMap")[0], "(created)")
	require.True(t, ok)
	require.True(t, strings.HasPrefix(name, ns+"/made-"), name)
	require.NotNil(t, c.get("/api/v1/namespaces/"+ns+"/configmaps/"+strings.TrimPrefix(name, ns+"/")))
}

func TestProgressEndsWithAllItems(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	var mu sync.Mutex
	var done, total int
	things := manyConfigMaps(unique(t, "prog"), 50)
	_, err := Run(t.Context(), Deps{Config: c.config, Roles: pluginhost.IsRoleOfVelero, Discovery: helperFor(t, c.config)},
		Request{
			Restore: newRestore("r", nil), Archive: pack(t, things...), Log: hclog.NewNullLogger(),
			Progress: func(d, n int) {
				mu.Lock()
				defer mu.Unlock()
				require.GreaterOrEqual(t, d, done)
				done, total = d, n
			},
		})
	require.NoError(t, err)
	require.Equal(t, len(things), done)
	require.Equal(t, len(things), total)
}

func TestPriorityOrderIsKept(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns := unique(t, "prio")
	var order []string
	var mu sync.Mutex
	_, config := newProxy(t, c, func(_ http.ResponseWriter, r *http.Request, _ int, _ func()) bool {
		if r.Method == http.MethodPost {
			mu.Lock()
			defer mu.Unlock()
			resource := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
			if len(order) == 0 || order[len(order)-1] != resource {
				order = append(order, resource)
			}
		}
		return false
	})
	through := *c
	through.config = config
	things := []thing{namespaceThing(ns, nil)}
	for i := range 10 {
		name := fmt.Sprintf("x%d", i)
		things = append(things, configMap(ns, name, nil), in("secrets", "v1", "Secret", ns, name, nil),
			in("serviceaccounts", "v1", "ServiceAccount", ns, name, nil),
			in("roles.rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1", "Role", ns, name, nil),
			in("limitranges", "v1", "LimitRange", ns, name, obj{"spec": obj{"limits": []obj{}}}),
			in("endpoints", "v1", "Endpoints", ns, name, nil))
	}
	options := testOptions()
	priorities, err := plan.ParsePriorities("namespaces,secrets,roles,-,cm,serviceaccounts")
	require.NoError(t, err)
	options.Priorities = priorities
	result, err := through.restore(pack(t, things...), newRestore("r", nil), options)
	require.NoError(t, err)
	require.Zero(t, result.Results.Errors.Count(), "%+v", result.Results)
	require.Equal(t, []string{"namespaces", "secrets", "roles", "endpoints", "limitranges", "configmaps",
		"serviceaccounts"}, order)
}

func TestDeletedNamespaceIsCreatedAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns := unique(t, "van")
	c.create(namespaceThing(ns, nil), "test")
	// The namespace is in the list at the beginning of the restore, and is deleted before the first write.
	var once sync.Once
	_, config := newProxy(t, c, func(_ http.ResponseWriter, r *http.Request, _ int, _ func()) bool {
		if r.Method == http.MethodPost {
			once.Do(func() { c.remove(namespaceThing(ns, nil)) })
		}
		return false
	})
	through := *c
	through.config = config
	things := manyConfigMaps(ns, 20)[1:]
	result := through.mustRestore(pack(t, things...), newRestore("r", nil))
	require.Zero(t, result.Results.Errors.Count(), "%+v", result.Results)
	require.ElementsMatch(t, append(createdNames(things), "Namespace "+ns), created(result, ""))
}

func TestCheckDefinition(t *testing.T) {
	t.Parallel()
	ready, _, err := checkDefinition(
		[]byte(`{"status":{"conditions":[{"type":"NamesAccepted","status":"True"},{"type":"Established","status":"True"}]}}`),
	)
	require.NoError(t, err)
	require.True(t, ready)
	ready, why, err := checkDefinition(
		[]byte(`{"status":{"conditions":[{"type":"NamesAccepted","status":"False","message":"taken"},{"type":"Established","status":"True"}]}}`),
	)
	require.NoError(t, err)
	require.False(t, ready)
	require.Equal(t, "condition NamesAccepted is not met: taken", why)
	ready, why, err = checkDefinition([]byte(`{}`))
	require.NoError(t, err)
	require.False(t, ready)
	require.NotEmpty(t, why)
	_, _, err = checkDefinition([]byte(`{"status":[]}`))
	require.Error(t, err)
}

func TestPanicIsAnErrorOfItsItem(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	things := manyConfigMaps(unique(t, "panic"), 5)
	action := &fakeAction{name: "a/b", execute: func(in restoreitemaction.Input) (*restoreitemaction.Result, error) {
		if bytes.Contains(in.Item, []byte("item-003")) {
			panic("boom")
		}
		return &restoreitemaction.Result{Item: in.Item}, nil
	}}
	result := c.mustRestore(pack(t, things...), newRestore("r", nil), action)
	require.Len(t, created(result, ""), 5)
	ns := things[0].name
	require.Len(t, result.Results.Errors.Namespaces[ns], 1)
	require.Contains(t, result.Results.Errors.Namespaces[ns][0], "configmaps/"+ns+"/item-003: panic in the server: boom")
	require.Contains(t, entries(result, "v1/ConfigMap"), ns+"/item-003(failed)")
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns := unique(t, "ctx")
	action := &fakeAction{name: "a/b", execute: func(in restoreitemaction.Input) (*restoreitemaction.Result, error) {
		return &restoreitemaction.Result{Item: in.Item, WaitForAdditionalItems: true}, nil
	}}
	started := make(chan struct{})
	var once sync.Once
	action.ready = func([]framework.ResourceIdentifier) (bool, error) {
		once.Do(func() { close(started) })
		return false, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-started; cancel() }()
	_, err := Run(ctx, Deps{Config: c.config, Roles: pluginhost.IsRoleOfVelero, Discovery: helperFor(t, c.config),
		Options: Options{ResourceTimeout: time.Hour}}, Request{
		Restore: newRestore("r", nil), Archive: pack(t, configMap(ns, "x", nil)), Log: hclog.NewNullLogger(),
		Actions: []restoreitemaction.Action{action},
	})
	require.ErrorIs(t, err, context.Canceled)
}
