package restore

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

// gateOf returns a network policy, whose resource comes after those of the other objects of these tests.
func gateOf(ns string) thing {
	return in("networkpolicies.networking.k8s.io", "networking.k8s.io/v1", "NetworkPolicy", ns, "gate",
		obj{"spec": obj{"podSelector": obj{}}})
}

// meanwhile returns an action that calls do once, when the item of gateOf is restored.
func meanwhile(do func()) *fakeAction {
	var once sync.Once
	return &fakeAction{name: "example.com/meanwhile",
		applies: framework.ResourceSelector{IncludedResources: []string{"networkpolicies.networking.k8s.io"}},
		execute: func(in restoreitemaction.Input) (*restoreitemaction.Result, error) {
			once.Do(do)
			return &restoreitemaction.Result{Item: in.Item}, nil
		}}
}

func (c *cluster) awaitAll(things ...thing) {
	for _, one := range things {
		require.Eventually(c.t, func() bool { return c.live(one) != nil }, 5*time.Minute, 10*time.Millisecond)
	}
}

// TestVanishedObjectsAreNamed has what others do to restored objects while the restore goes on.
func TestVanishedObjectsAreNamed(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns := unique(t, "gone")
	of := func(name string) thing { return configMap(ns, name, nil) }
	controlled := configMap(ns, "controlled", obj{"metadata": obj{"ownerReferences": []obj{{"apiVersion": "apps/v1",
		"kind": "DaemonSet", "name": "d", "uid": "u", "controller": true}}}})
	held := configMap(ns, "held", obj{"metadata": obj{"finalizers": []string{"example.com/hold"}}})
	others := []thing{of("deleted"), of("replaced"), of("relabelled"), of("kept"), controlled, held}
	for i := range 15 {
		others = append(others, in("serviceaccounts", "v1", "ServiceAccount", ns, fmt.Sprintf("a%02d", i), obj{}))
	}
	action := meanwhile(func() {
		c.awaitAll(others...)
		for _, one := range others {
			if one.name != "kept" && one.name != "relabelled" && one.name != "held" {
				c.remove(one)
			}
		}
		c.call(http.MethodDelete, pathOf(held, true), "", nil)
		c.create(of("replaced"), "other")
		c.must(http.MethodPatch, pathOf(of("relabelled"), true), kubeapi.MergePatch, []byte(`{"metadata":{"labels":null}}`))
	})
	t.Cleanup(func() {
		c.call(http.MethodPatch, pathOf(held, true), kubeapi.MergePatch, []byte(`{"metadata":{"finalizers":null}}`))
	})
	result := c.mustRestore(pack(t, append(others, namespaceThing(ns, nil), gateOf(ns))...), newRestore("r", nil), action)
	require.Zero(t, result.Results.Errors.Count(), "%+v", result.Results.Errors)
	require.ElementsMatch(t, []string{
		"of 5 configmaps that were restored, 3 are not there any more: deleted (deleted), held (being deleted), " +
			"replaced (replaced by another object)",
		"of 15 serviceaccounts that were restored, 15 are not there any more: a00 (deleted), a01 (deleted), a02 (deleted), " +
			"a03 (deleted), a04 (deleted), a05 (deleted), a06 (deleted), a07 (deleted), a08 (deleted), a09 (deleted) and 5 more",
	}, result.Results.Warnings.Namespaces[ns], "%+v", result.Results)
}

// TestVanishedNamespace deletes the namespace of a restore in the middle, once to the end, and once so that a finalizer
// keeps it until the restore has ended.
func TestVanishedNamespace(t *testing.T) {
	t.Parallel()
	t.Run("created again", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		ns := unique(t, "again")
		early, late := configMap(ns, "early", nil), gateOf(ns)
		result := c.mustRestore(pack(t, early, late), newRestore("r", nil), meanwhile(func() {
			c.awaitAll(early)
			c.remove(namespaceThing(ns, nil))
		}))
		require.NotNil(t, c.live(late))
		require.Equal(t, []string{"namespace " + ns + " was deleted during the restore and created again: of 1 configmaps " +
			"that were restored, 1 are not there any more: early (deleted)"}, result.Results.Errors.Namespaces[ns],
			"%+v", result.Results)
	})
	t.Run("being deleted", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		ns := unique(t, "ending")
		held := configMap(ns, "held", obj{"metadata": obj{"finalizers": []string{"example.com/hold"}}})
		options := testOptions()
		options.TerminatingTimeout = 100 * time.Millisecond
		t.Cleanup(func() {
			c.call(http.MethodPatch, pathOf(held, true), kubeapi.MergePatch, []byte(`{"metadata":{"finalizers":null}}`))
		})
		result, err := c.restore(pack(t, held, gateOf(ns)), newRestore("r", nil), options, meanwhile(func() {
			c.awaitAll(held)
			c.call(http.MethodDelete, pathOf(namespaceThing(ns, nil), true), "", nil)
		}))
		require.NoError(t, err)
		require.Len(t, result.Results.Errors.Namespaces[ns], 2, "%+v", result.Results)
		said := strings.Join(result.Results.Errors.Namespaces[ns], "\n")
		require.Contains(t, said, "error restoring networkpolicies.networking.k8s.io/"+ns+"/gate: ")
		require.Regexp(t, "namespace "+ns+" is being deleted, since .*: of what was restored into it, 1 are not there any "+
			"more: configmaps/held", said)
	})
}

// TestVanishedDefinition deletes a definition that the restore has created while its objects are restored. Each of the
// others is tried once, and not for as long as a new definition may take to be served.
func TestVanishedDefinition(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	group, ns := unique(t, "g")+".example.com", unique(t, "def")
	definition := widgetCRD(group, "crates", "Crate")
	things := []thing{namespaceThing(ns, nil), definition}
	const crates = 40
	for i := range crates {
		things = append(things, in("crates."+group, group+"/v1", "Crate", ns, fmt.Sprintf("c%02d", i),
			obj{"spec": obj{"a": 1}}))
	}
	var tries, created atomic.Int32
	_, config := newProxy(t, c, func(_ http.ResponseWriter, r *http.Request, _ int, _ func()) bool {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/crates") {
			if tries.Add(1) == crates/2 {
				created.Store(crates/2 - 1)
				c.remove(definition)
				require.Eventually(t, func() bool {
					status, _ := c.call(http.MethodGet, "/apis/"+group+"/v1/crates", "", nil)
					return status == http.StatusNotFound
				}, 5*time.Minute, 10*time.Millisecond)
			}
		}
		return false
	})
	options := testOptions()
	options.Workers = 1
	result, err := Run(t.Context(), Deps{Config: config, Roles: pluginhost.IsRoleOfVelero,
		Discovery: helperFor(t, config), Options: options},
		Request{Restore: newRestore("r", nil), Archive: pack(t, things...), Log: testLog(t)})
	require.NoError(t, err)
	require.EqualValues(t, crates, tries.Load(), "each is tried once")
	said := result.Results.Errors.Namespaces[ns]
	require.Len(t, said, crates-int(created.Load())+1, "%+v", result.Results)
	vanished := 0
	for _, message := range said {
		if strings.HasPrefix(message, "the definition crates."+group+" was deleted during the restore: of 19 crates."+group) {
			vanished++
			continue
		}
		require.Contains(t, message, ": the definition crates."+group+" was deleted during the restore; restore again")
	}
	require.Equal(t, 1, vanished, "%+v", said)
	require.Equal(t, []string{"of 1 customresourcedefinitions.apiextensions.k8s.io that were restored, 1 are not there " +
		"any more: crates." + group + " (deleted)"}, result.Results.Errors.Cluster)
}

// TestReferencesThatRemainAreNamed has references to mapped namespaces that no action maps.
func TestReferencesThatRemainAreNamed(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns := unique(t, "ref")
	a, b := ns+"-a", ns+"-b"
	action := &fakeAction{name: "example.com/map",
		applies: framework.ResourceSelector{IncludedResources: []string{"configmaps"}},
		execute: func(in restoreitemaction.Input) (*restoreitemaction.Result, error) {
			return mutate(in, func(o obj) {
				if data, _ := o["data"].(obj); data["swapped-namespace"] == a {
					data["swapped-namespace"] = b // which is mapped itself
				}
			})
		}}
	backup := pack(t, configMap(a, "plain", obj{"data": obj{"a": "1", "namespace": "other"}}),
		configMap(a, "urls", obj{"data": obj{"url": "http://db." + a + ".svc:80, http://db." + b + ".svc.cluster.local",
			"no": "http://db." + a + ".example.com", "namespace": a, "user": "system:serviceaccount:" + b + ":x"}}),
		configMap(a, "mapped", obj{"data": obj{"swapped-namespace": a}}),
		configMap("default", ns+"-elsewhere", obj{"data": obj{"ns-namespaces": b}}))
	result := c.mustRestore(backup, newRestore("r", func(s *velerov1.RestoreSpec) {
		s.NamespaceMapping = map[string]string{a: b, b: a}
	}), action)
	require.Zero(t, result.Results.Errors.Count(), "%+v", result.Results)
	const end = "; change it if the restored ones are meant"
	require.Equal(t, map[string][]string{
		b: {"configmaps/" + b + "/urls still refers to namespaces that namespaceMapping maps, in data.namespace (" + a +
			", now " + b + "), data.url (" + a + ", now " + b + "), data.url (" + b + ", now " + a + "), data.user (" + b +
			", now " + a + ")" + end},
		"default": {"configmaps/default/" + ns + "-elsewhere still refers to namespaces that namespaceMapping maps, in " +
			"data.ns-namespaces (" + b + ", now " + a + ")" + end},
	}, result.Results.Warnings.Namespaces)
	raw, err := json.Marshal(obj{"metadata": obj{"namespace": a, "annotations": obj{
		"kubectl.kubernetes.io/last-applied-configuration": `{"x":"db.` + a + `.svc"}`, "velero.io/x-namespace": a}},
		"spec":   obj{"list": []obj{{"matchNames": []string{"x", a}}, {"matchLabels": obj{"kubernetes.io/metadata.name": a}}}},
		"status": obj{"namespace": a}})
	require.NoError(t, err)
	found := referencesIn(raw, func(namespace string) bool { return namespace == a })
	require.ElementsMatch(t, []namespaceRef{{"spec.list[0].matchNames[1]", a},
		{"spec.list[1].matchLabels.kubernetes.io/metadata.name", a}}, found)
}
