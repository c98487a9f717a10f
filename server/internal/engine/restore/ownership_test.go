package restore

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
)

// ownersOf returns the owners of an object's fields in text form, without times and the labels of the restore.
func ownersOf(t *testing.T, o obj) []string {
	t.Helper()
	raw, err := json.Marshal(dig(o, "metadata", "managedFields"))
	require.NoError(t, err)
	var owners []struct {
		Manager, Operation, Subresource string
		FieldsV1                        json.RawMessage
	}
	require.NoError(t, json.Unmarshal(raw, &owners))
	var out []string
	for _, one := range owners {
		var set obj
		require.NoError(t, json.Unmarshal(one.FieldsV1, &set))
		removeRestoreLabels(set)
		rendered, err := json.Marshal(set)
		require.NoError(t, err)
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", one.Manager, one.Operation, one.Subresource,
			rendered)))
	}
	slices.Sort(out)
	return out
}

// removeRestoreLabels removes the labels of a restore from a set of fields, and the sets that are empty without them.
func removeRestoreLabels(set obj) {
	meta, _ := set["f:metadata"].(obj)
	labels, _ := meta["f:labels"].(obj)
	if labels == nil {
		return
	}
	delete(labels, "f:"+velerov1.BackupNameLabel)
	delete(labels, "f:"+velerov1.RestoreNameLabel)
	if len(labels) == 0 || len(labels) == 1 && labels["."] != nil {
		delete(meta, "f:labels")
	}
	if len(meta) == 0 {
		delete(set, "f:metadata")
	}
}

// apply writes a thing by server-side apply.
func (c *cluster) apply(one thing, manager string) {
	c.t.Helper()
	c.must(http.MethodPatch, pathOf(one, true)+"?force=true&fieldManager="+manager, kubeapi.Apply, one.body)
}

// TestFieldOwnershipIsRestored writes objects as users and controllers do, restores them, and compares the owners
// before and after. writes is the number of requests that the restore needs for each.
func TestFieldOwnershipIsRestored(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	deployment := obj{"spec": obj{
		"replicas": 0, "selector": obj{"matchLabels": obj{"x": "y"}},
		"template": obj{"metadata": obj{"labels": obj{"x": "y"}},
			"spec": obj{"containers": []obj{{"name": "c", "image": "i"}}}},
	}}
	group := unique(t, "g") + ".example.com"
	widgets := "widgets." + group
	c.create(widgetCRD(group, "widgets", "Widget"), "test")
	require.Eventually(t, func() bool {
		status, _ := c.call(http.MethodGet, "/apis/"+group+"/v1/widgets", "", nil)
		return status == http.StatusOK
	}, 5*time.Minute, 50*time.Millisecond)
	tests := []struct {
		name   string
		thing  func(ns string) thing
		make   func(thing)
		writes int
	}{
		{
			name: "one manager that created", writes: 1,
			thing: func(ns string) thing {
				return configMap(ns, "x", obj{"data": obj{"a": "1"}, "metadata": obj{"labels": obj{"l": "1"}}})
			},
			make: func(one thing) { c.create(one, "kubectl-create") },
		},
		{
			name: "one manager that created without labels", writes: 1,
			thing: func(ns string) thing { return configMap(ns, "x", nil) },
			make:  func(one thing) { c.create(one, "manager with space") },
		},
		{
			name: "one manager that created and changed", writes: 1,
			thing: func(ns string) thing { return configMap(ns, "x", nil) },
			make: func(one thing) {
				c.create(one, "kubectl")
				c.must(http.MethodPatch, pathOf(one, true)+"?fieldManager=kubectl", kubeapi.MergePatch,
					[]byte(`{"data":{"b":"2"}}`))
			},
		},
		{
			name: "one manager that applied", writes: 1,
			thing: func(ns string) thing {
				return configMap(ns, "x", obj{"data": obj{"a": "1"}, "metadata": obj{"labels": obj{"l": "1"}}})
			},
			make: func(one thing) { c.apply(one, "flux") },
		},
		{
			name: "one manager that applied where the server fills in", writes: 2,
			thing: func(ns string) thing {
				return in("deployments.apps", "apps/v1", "Deployment", ns, "x", deployment)
			},
			make: func(one thing) { c.apply(one, "helm") },
		},
		{
			name: "a custom resource that was applied", writes: 1,
			thing: func(ns string) thing {
				return in(widgets, group+"/v1", "Widget", ns, "x", obj{"spec": obj{"list": []obj{{"a": 1}, {"a": 1}}}})
			},
			make: func(one thing) { c.apply(one, "flux") },
		},
		{
			name: "two managers", writes: 2,
			thing: func(ns string) thing { return configMap(ns, "x", obj{"data": obj{"a": "1"}}) },
			make: func(one thing) {
				c.create(one, "kubectl-create")
				c.must(http.MethodPatch, pathOf(one, true)+"?fieldManager=operator", kubeapi.MergePatch,
					[]byte(`{"data":{"b":"2"}}`))
			},
		},
		{
			name: "one that created and one that applied", writes: 2,
			thing: func(ns string) thing { return configMap(ns, "x", obj{"data": obj{"a": "1"}}) },
			make: func(one thing) {
				c.create(one, "kubectl-create")
				other := configMap(one.namespace, one.name, obj{"data": obj{"b": "2"}})
				c.apply(other, "argocd")
			},
		},
		{
			name: "a manager of the status besides", writes: 1,
			thing: func(ns string) thing {
				return in("resourcequotas", "v1", "ResourceQuota", ns, "x", obj{"spec": obj{"hard": obj{"pods": "5"}}})
			},
			make: func(one thing) {
				c.create(one, "kubectl-create")
				full := c.live(one)
				full["status"] = obj{"hard": obj{"pods": "5"}}
				body, err := json.Marshal(full)
				require.NoError(t, err)
				c.call(http.MethodPut, pathOf(one, true)+"/status?fieldManager=quota", kubeapi.JSON, body)
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ns := unique(t, "own")
			c.create(namespaceThing(ns, nil), "test")
			one := tt.thing(ns)
			tt.make(one)
			before := c.asThing(one)
			var object obj
			require.NoError(t, json.Unmarshal(before.body, &object))
			want := slices.DeleteFunc(ownersOf(t, object), func(s string) bool { return strings.Contains(s, " Update status ") })
			require.NotEmpty(t, want)
			c.remove(one)

			writes := 0
			_, config := newProxy(t, c, func(_ http.ResponseWriter, r *http.Request, _ int, _ func()) bool {
				if strings.Contains(r.URL.Path, ns) && r.Method != http.MethodGet {
					writes++
				}
				return false
			})
			through := *c
			through.config = config
			result := through.mustRestore(pack(t, before), newRestore("own", nil))
			require.Zero(t, result.Results.Errors.Count()+result.Results.Warnings.Count(), "%+v", result.Results)
			got := slices.DeleteFunc(ownersOf(t, c.live(one)),
				func(s string) bool { return strings.Contains(s, " Update status ") })
			require.Equal(t, want, got)
			require.Equal(t, tt.writes, writes)
		})
	}
}

// TestCreationByApplyNeverChangesExistingObjects proves the condition on which createByApply relies.
func TestCreationByApplyNeverChangesExistingObjects(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns := unique(t, "apply")
	c.create(namespaceThing(ns, nil), "test")
	one := configMap(ns, "x", obj{"data": obj{"a": "backup"}})
	c.apply(one, "flux")
	before := c.asThing(one)
	c.remove(one)
	c.create(configMap(ns, "x", obj{"data": obj{"a": "live"}}), "somebody")
	live := c.live(one)

	result := c.mustRestore(pack(t, before), newRestore("r", nil))
	require.Equal(t, live, c.live(one))
	require.Equal(t, []string{ns + "/x(failed)"}, entries(result, "v1/ConfigMap"))
	require.Contains(t, result.Results.Warnings.Namespaces[ns][0], "differs from the backup")
}
