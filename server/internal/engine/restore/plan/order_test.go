package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
)

// TestOrder gives the items of some resources an order, each with one object "x" in namespace "n".
func TestOrder(t *testing.T) {
	t.Parallel()
	resources := []discovery.Resource{
		{GroupVersion: schema.GroupVersion{Version: "v1"}, Name: "pods", Kind: "Pod", Namespaced: true},
		{GroupVersion: schema.GroupVersion{Group: "apps", Version: "v1"}, Name: "replicasets", Kind: "ReplicaSet",
			Namespaced: true},
		{GroupVersion: schema.GroupVersion{Version: "v1"}, Name: "services", Kind: "Service", Namespaced: true},
		{GroupVersion: schema.GroupVersion{Group: "a.io", Version: "v1"}, Name: "apples", Kind: "Apple", Namespaced: true},
		{GroupVersion: schema.GroupVersion{Group: "a.io", Version: "v1"}, Name: "trees", Kind: "Tree"},
	}
	kind := func(kind string) manifest.Ref {
		for _, r := range resources {
			if r.Kind == kind {
				return manifest.Ref{Group: r.GroupVersion.Group, Kind: kind, Namespace: "n", Name: "x"}
			}
		}
		return manifest.Ref{Kind: kind, Namespace: "n", Name: "x"}
	}
	edge := func(of manifest.EdgeType, to string, strict bool) manifest.Edge {
		return manifest.Edge{Type: of, To: kind(to), Strict: strict}
	}
	refers := func(to string, strict bool) manifest.Edge { return edge(manifest.Reference, to, strict) }
	const soft, strict = false, true
	for name, test := range map[string]struct {
		edges  map[string]manifest.Edge // one of each kind
		fixed  bool
		needs  map[string]string // with "!" if strict
		levels map[string]int32  // those that changed
		cycles int
	}{
		"none":                   {needs: map[string]string{}},
		"a reference":            {edges: map[string]manifest.Edge{"Tree": refers("Apple", soft)}, needs: map[string]string{"Tree": "Apple"}},
		"against the priorities": {edges: map[string]manifest.Edge{"Pod": refers("Tree", soft)}, needs: map[string]string{}},
		"a strict one lifts": {edges: map[string]manifest.Edge{"Pod": refers("Tree", strict)},
			needs: map[string]string{"Pod": "Tree!"}, levels: map[string]int32{"Tree": 0}},
		"what lifted ones need too": {edges: map[string]manifest.Edge{"Pod": refers("Tree", strict),
			"Tree": refers("Apple", strict)}, needs: map[string]string{"Pod": "Tree!", "Tree": "Apple!"},
			levels: map[string]int32{"Tree": 0, "Apple": 0}},
		"what lifted ones need softly": {edges: map[string]manifest.Edge{"Pod": refers("Tree", strict),
			"Tree": refers("Apple", soft)}, needs: map[string]string{"Pod": "Tree!", "Tree": "Apple"},
			levels: map[string]int32{"Tree": 0, "Apple": 0}},
		"priorities of the user": {edges: map[string]manifest.Edge{"Pod": refers("Tree", strict)}, fixed: true,
			needs: map[string]string{}},
		"owners come first": {edges: map[string]manifest.Edge{"Apple": edge(manifest.Controller, "Tree", strict)},
			needs: map[string]string{"Apple": "Tree!"}, levels: map[string]int32{"Tree": 3}},
		"workloads come last": {edges: map[string]manifest.Edge{"Pod": edge(manifest.Controller, "ReplicaSet", strict)},
			needs: map[string]string{"ReplicaSet": "Pod!"}},
		"others of the core group": {edges: map[string]manifest.Edge{"Apple": edge(manifest.Owner, "Service", soft)},
			needs: map[string]string{}},
		"not in the backup": {edges: map[string]manifest.Edge{"Apple": edge(manifest.Owner, "Gone", soft)},
			needs: map[string]string{}},
		"left out": {edges: map[string]manifest.Edge{"Apple": {Type: manifest.More}}, needs: map[string]string{}},
		"a cycle": {edges: map[string]manifest.Edge{"Apple": edge(manifest.Controller, "Tree", strict),
			"Tree": refers("Apple", soft)}, needs: map[string]string{"Apple": "Tree!"},
			levels: map[string]int32{"Tree": 3}, cycles: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			order := NewOrder(new(discovery.Snapshot).With(resources...), test.fixed)
			kinds := map[int]string{}
			for level, r := range resources {
				gr := schema.GroupResource{Group: r.GroupVersion.Group, Resource: r.Name}
				entry := archive.Entry{GroupResource: gr, Name: "x"}
				if r.Namespaced {
					entry.Namespace = "n"
				}
				kinds[order.Len()] = r.Kind
				order.AddLevel(gr, level, Entries{entry})
			}
			for from, e := range test.edges {
				ref := kind(from)
				order.AddEdges(&manifest.Item{APIGroup: ref.Group, ItemKind: from,
					Resource: resources[kindIndex(resources, from)].Name, Namespace: ref.Namespace, Name: "x",
					Edges: []manifest.Edge{e}})
			}
			order.Complete()
			needs, levels := map[string]string{}, map[string]int32{}
			for i := range order.Len() {
				for to, isStrict := range order.Needs.Of(i) {
					needs[kinds[i]] += kinds[to]
					if isStrict {
						needs[kinds[i]] += "!"
					}
				}
				if order.Level[i] != int32(i) { //nolint:gosec // five
					levels[kinds[i]] = order.Level[i]
				}
			}
			require.Equal(t, test.needs, needs)
			if test.levels == nil {
				test.levels = map[string]int32{}
			}
			require.Equal(t, test.levels, levels)
			require.Len(t, order.Cycles, test.cycles)
		})
	}
}

func kindIndex(resources []discovery.Resource, kind string) int {
	for i, r := range resources {
		if r.Kind == kind {
			return i
		}
	}
	return -1
}
