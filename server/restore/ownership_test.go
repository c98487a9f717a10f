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
	"github.com/cleat-dev/cleat/server/kubeapi"
)

// ownersOf renders who owns which fields, without times and without the labels of the restore.
func ownersOf(t *testing.T, o obj) []string {
	t.Helper()
	raw, err := json.Marshal(dig(o, "metadata", "managedFields"))
	require.NoError(t, err)
	var owners []owner
	require.NoError(t, json.Unmarshal(raw, &owners))
	var out []string
	for _, one := range owners {
		var set map[string]any
		require.NoError(t, json.Unmarshal(one.FieldsV1, &set))
		rendered, err := json.Marshal(withoutRestoreLabels(set))
		require.NoError(t, err)
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", one.Manager, one.Operation, one.Subresource, rendered)))
	}
	slices.Sort(out)
	return out
}

// apply writes a thing by server-side apply.
func (c *cluster) apply(one thing, manager string) {
	c.t.Helper()
	c.must(http.MethodPatch, pathOf(one, true)+"?force=true&fieldManager="+manager, kubeapi.Apply, one.body)
}

// TestFieldOwnershipComesBack writes objects as users and controllers do, restores them, and compares the owners
// with those before. writes is how many requests the restore needs for each.
func TestFieldOwnershipComesBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	deployment := obj{"spec": obj{
		"replicas": 0, "selector": obj{"matchLabels": obj{"x": "y"}},
		"template": obj{"metadata": obj{"labels": obj{"x": "y"}}, "spec": obj{"containers": []obj{{"name": "c", "image": "i"}}}},
	}}
	group := unique(t, "g") + ".example.com"
	widgets := "widgets." + group
	c.create(widgetCRD(group, "widgets", "Widget"), "test")
	require.Eventually(t, func() bool {
		status, _ := c.call(http.MethodGet, "/apis/"+group+"/v1/widgets", "", nil)
		return status == http.StatusOK
	}, time.Minute, 50*time.Millisecond)
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
				c.must(http.MethodPatch, pathOf(one, true)+"?fieldManager=kubectl", kubeapi.MergePatch, []byte(`{"data":{"b":"2"}}`))
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
				c.must(http.MethodPatch, pathOf(one, true)+"?fieldManager=operator", kubeapi.MergePatch, []byte(`{"data":{"b":"2"}}`))
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
			got := slices.DeleteFunc(ownersOf(t, c.live(one)), func(s string) bool { return strings.Contains(s, " Update status ") })
			require.Equal(t, want, got)
			require.Equal(t, tt.writes, writes)
		})
	}
}

// TestCreationByApplyNeverChangesWhatExists proves the guard that createByApply relies on.
func TestCreationByApplyNeverChangesWhatExists(t *testing.T) {
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
	require.Equal(t, []string{ns + "/x(failed)"}, result.ResourceList["v1/ConfigMap"])
	require.Contains(t, result.Results.Warnings.Namespaces[ns][0], "differs from the backup")
}

func TestOwnershipPlan(t *testing.T) {
	t.Parallel()
	entry := func(manager, operation, subresource, fields string) string {
		return fmt.Sprintf(`{"manager":%q,"operation":%q,"subresource":%q,"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":%s}`, manager, operation, subresource, fields)
	}
	list := func(entries ...string) []byte { return []byte("[" + strings.Join(entries, ",") + "]") }
	tests := []struct {
		name   string
		fields []byte
		writer string
		sole   bool
		apply  bool
	}{
		{name: "nothing recorded", fields: nil, writer: "fallback"},
		{name: "empty list", fields: list(), writer: "fallback"},
		{name: "garbage", fields: []byte(`{"a":1}`), writer: "fallback"},
		{name: "one", fields: list(entry("a", "Update", "", `{"f:data":{}}`)), writer: "a", sole: true},
		{name: "one that applied", fields: list(entry("a", "Apply", "", `{"f:data":{}}`)), writer: "a", sole: true, apply: true},
		{name: "one and the status", fields: list(entry("a", "Update", "", `{"f:data":{}}`), entry("k", "Update", "status", `{"f:status":{"f:x":{}}}`)), writer: "a", sole: true},
		{name: "one and more than the status", fields: list(entry("a", "Update", "", `{"f:data":{}}`), entry("k", "Update", "status", `{"f:metadata":{"f:annotations":{"f:x":{}}},"f:status":{}}`)), writer: "a"},
		{name: "the larger of two", fields: list(entry("a", "Update", "", `{"f:a":{}}`), entry("b", "Update", "", `{"f:data":{"f:b":{},"f:c":{}}}`)), writer: "b"},
		{name: "one manager twice", fields: list(entry("a", "Update", "", `{"f:a":{}}`), entry("a", "Apply", "", `{"f:data":{"f:b":{}}}`)), writer: "a"},
		{name: "the status alone", fields: list(entry("k", "Update", "status", `{"f:status":{}}`)), writer: "fallback"},
		{name: "a name that no server accepts", fields: list(entry(strings.Repeat("x", 129), "Update", "", `{"f:a":{}}`)), writer: "fallback"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			plan := planOwnership(tt.fields, "fallback")
			require.Equal(t, tt.writer, plan.writer)
			require.Equal(t, tt.sole, plan.sole != nil)
			require.Equal(t, tt.apply, plan.apply)
		})
	}
}

func TestOwnershipIsSettledWhenTheServerRecordedNoMore(t *testing.T) {
	t.Parallel()
	of := func(manager, fields string) []byte {
		return fmt.Appendf(nil, `[{"manager":%q,"operation":"Update","apiVersion":"v1","fieldsV1":%s}]`, manager, fields)
	}
	plan := planOwnership(of("a", `{"f:data":{".":{},"f:x":{},"f:y":{}}}`), "")
	labels := fmt.Sprintf(`"f:metadata":{"f:labels":{".":{},"f:%s":{},"f:%s":{}}}`, velerov1.BackupNameLabel, velerov1.RestoreNameLabel)
	require.True(t, plan.settled(of("a", `{"f:data":{".":{},"f:x":{},"f:y":{}}}`)))
	require.True(t, plan.settled(of("a", `{"f:data":{".":{},"f:x":{}},`+labels+`}`)), "labels of the restore, and a field that an action removed")
	require.False(t, plan.settled(of("a", `{"f:data":{".":{},"f:x":{},"f:z":{}}}`)))
	require.False(t, plan.settled(of("b", `{"f:data":{".":{}}}`)))
	require.True(t, plan.settled([]byte("[]")), "a type that the server does not track")
	require.False(t, plan.settled([]byte("garbage")))
	require.True(t, planOwnership(nil, "x").settled(of("x", `{"f:data":{}}`)), "nothing to put back")
}
