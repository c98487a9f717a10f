package manifest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// world builds a manifest of config maps from lines "a => b" (a needs b strictly) and "a -> b".
func world(t *testing.T, lines ...string) *Manifest {
	t.Helper()
	m := New()
	items := map[string]*Item{}
	item := func(name string) *Item {
		if items[name] == nil {
			items[name] = &Item{APIVersion: "v1", Resource: "configmaps", ItemKind: "ConfigMap", Namespace: "shop", Name: name,
				UID: "uid-" + name}
		}
		return items[name]
	}
	for _, line := range lines {
		words := strings.Fields(line)
		from, to := item(words[0]), item(words[2])
		from.Edges = append(from.Edges, Edge{Type: Reference, Strict: words[1] == "=>", To: to.Ref(), Path: "data"})
	}
	for _, i := range items {
		_, err := m.Add(i)
		require.NoError(t, err)
	}
	return m
}

// planned returns the names of the items of each wave, and the cycles with what is broken in them.
func planned(m *Manifest) (waves []string, cycles []string) {
	all, found := m.Graph().Waves()
	names := func(items []*Item) string {
		var names []string
		for _, i := range items {
			names = append(names, i.Name)
		}
		return strings.Join(names, " ")
	}
	for _, wave := range all {
		waves = append(waves, names(wave))
	}
	for _, cycle := range found {
		text := []string{names(cycle.Items) + ":"}
		for _, link := range cycle.Broken {
			text = append(text, link.From.Name+"->"+link.Item.Name)
		}
		cycles = append(cycles, strings.Join(text, " "))
	}
	return waves, cycles
}

func TestWaves(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ lines, waves, cycles []string }{
		"nothing":          {},
		"chain":            {[]string{"a => b", "b -> c"}, []string{"c", "b", "a"}, nil},
		"diamond":          {[]string{"a => b", "a => c", "b => d", "c -> d", "a -> d"}, []string{"d", "b c", "a"}, nil},
		"soft edge breaks": {[]string{"a => b", "b -> a"}, []string{"b", "a"}, []string{"a b: b->a"}},
		"the other one":    {[]string{"a -> b", "b => a"}, []string{"a", "b"}, []string{"a b: a->b"}},
		"two soft ones":    {[]string{"a -> b", "b -> a"}, []string{"a", "b"}, []string{"a b: a->b"}},
		"three soft ones":  {[]string{"a -> b", "b -> c", "c -> a"}, []string{"a", "c", "b"}, []string{"a b c: a->b"}},
		"strict only":      {[]string{"a => b", "b => a"}, []string{"b", "a"}, []string{"a b: b->a"}},
		"itself":           {[]string{"a -> a", "b => b"}, []string{"a b"}, []string{"a: a->a", "b: b->b"}},
		"downstream of a cycle": {
			[]string{"a => z", "y -> z", "z -> y"},
			[]string{"y", "z", "a"},
			[]string{"y z: y->z"},
		},
		"strict cycle with soft ones": {
			[]string{"a => b", "b => a", "c => d", "d => c", "a -> c", "d -> b"},
			[]string{"b", "d", "c", "a"},
			[]string{"a b c d: b->a d->c"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			waves, cycles := planned(world(t, test.lines...))
			require.Equal(t, test.waves, waves)
			require.Equal(t, test.cycles, cycles)
		})
	}
}

// Of random graphs: each item comes after all that it needs, except for the broken links, which are within cycles, and
// strict ones only where strict ones form a cycle.
func TestWavesOfRandomGraphs(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 3))
	for range 300 {
		var lines []string
		for range 1 + r.IntN(25) {
			lines = append(lines, fmt.Sprintf("%c %s %c", 'a'+rune(r.IntN(10)), pick(r, "=>", "->", "->"), 'a'+rune(r.IntN(10))))
		}
		m := world(t, lines...)
		g := m.Graph()
		waves, cycles := g.Waves()
		wave := map[*Item]int{}
		for n, items := range waves {
			require.NotEmpty(t, items)
			for _, item := range items {
				wave[item] = n
			}
		}
		require.Len(t, wave, len(g.Items()))
		broken := map[string]bool{}
		for _, c := range cycles {
			require.NotEmpty(t, c.Broken)
			for _, link := range c.Broken {
				require.True(t, reaches(g, link.Item, link.From, link.Strict), "%s: %s is on no cycle", lines, link.From)
				broken[link.From.Name+link.Item.Name+fmt.Sprint(link.Strict)] = true
			}
		}
		for _, item := range g.Items() {
			for _, link := range g.Links(item) {
				if !broken[item.Name+link.Item.Name+fmt.Sprint(link.Strict)] {
					require.Less(t, wave[link.Item], wave[item], "%s", lines)
				}
			}
		}
		again, _ := planned(world(t, lines...))
		first, _ := planned(m)
		require.Equal(t, first, again)
	}
}

// reaches reports whether links lead from an item to another one.
func reaches(g *Graph, from, to *Item, strictly bool) bool {
	seen := map[*Item]bool{from: true}
	for next := []*Item{from}; len(next) > 0; next = next[1:] {
		if next[0] == to {
			return true
		}
		for _, link := range g.Links(next[0]) {
			if !seen[link.Item] && (link.Strict || !strictly) {
				seen[link.Item] = true
				next = append(next, link.Item)
			}
		}
	}
	return false
}

func TestLongChainsAndCycles(t *testing.T) {
	t.Parallel()
	const length = 50_000
	var lines []string
	for i := range length {
		lines = append(lines, fmt.Sprintf("%05d => %05d", i, i+1))
	}
	waves, cycles := planned(world(t, lines...))
	require.Len(t, waves, length+1)
	require.Empty(t, cycles)
	waves, cycles = planned(world(t, append(lines, fmt.Sprintf("%05d -> 00000", length))...))
	require.Len(t, waves, length+1)
	require.Len(t, cycles, 1)
	for i := range length {
		lines = append(lines, fmt.Sprintf("%05d -> %05d", i+1, i))
	}
	_, cycles = planned(world(t, lines...))
	require.Len(t, cycles, 1)
}

func TestClusterAPIComesInOrder(t *testing.T) {
	t.Parallel()
	m := New()
	add(t, m, "", "namespaces", "Namespace", "", "fleet", "u-ns")
	for _, resource := range []string{"clusters", "machines"} {
		add(t, m, "apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", "",
			resource+".cluster.x-k8s.io", "u-"+resource)
	}
	refer := func(kind, group, name, path string, strict bool) func(*Item) {
		return func(i *Item) {
			i.Edges = append(i.Edges, Edge{Type: Reference, Strict: strict, Path: path,
				To: Ref{Group: group, Kind: kind, Namespace: "fleet", Name: name}})
		}
	}
	own := func(apiVersion, kind, name, uid string) func(*Item) {
		return func(i *Item) { i.AddOwner(apiVersion, kind, name, uid, true) }
	}
	const core, controlPlane, infra, addons = "cluster.x-k8s.io", "controlplane.cluster.x-k8s.io",
		"infrastructure.cluster.x-k8s.io", "addons.cluster.x-k8s.io"
	cluster := add(t, m, core, "clusters", "Cluster", "fleet", "prod", "u1",
		refer("KubeadmControlPlane", controlPlane, "prod", "spec.controlPlaneRef", false))
	plane := add(t, m, controlPlane, "kubeadmcontrolplanes", "KubeadmControlPlane", "fleet", "prod", "u2",
		own(core+"/v1", "Cluster", "prod", "u1"))
	machine := add(t, m, core, "machines", "Machine", "fleet", "prod-0", "u3",
		own(controlPlane+"/v1", "KubeadmControlPlane", "prod", "u2"),
		refer("DockerMachine", infra, "prod-0", "spec.infrastructureRef", false))
	add(t, m, infra, "dockermachines", "DockerMachine", "fleet", "prod-0", "u4",
		own(core+"/v1", "Machine", "prod-0", "u3"))
	add(t, m, addons, "clusterresourcesetbindings", "ClusterResourceSetBinding", "fleet", "prod", "u5",
		refer("Cluster", core, "prod", "spec.clusterName", true), refer("ClusterResourceSet", addons, "gone",
			"spec.bindings[0]", false))

	waves, cycles := m.Graph().Waves()
	var got []string
	for _, wave := range waves {
		var kinds []string
		for _, item := range wave {
			kinds = append(kinds, item.ItemKind)
		}
		got = append(got, strings.Join(kinds, " "))
	}
	require.Equal(t, []string{
		"Namespace CustomResourceDefinition CustomResourceDefinition", "Cluster",
		"ClusterResourceSetBinding KubeadmControlPlane", "Machine", "DockerMachine",
	}, got)
	require.Len(t, cycles, 2)
	require.Equal(t, []*Item{cluster, plane}, cycles[0].Items)
	require.Equal(t, "spec.controlPlaneRef", cycles[0].Broken[0].Path)
	require.Equal(t, machine, cycles[1].Broken[0].From)
	require.Equal(t, "spec.infrastructureRef", cycles[1].Broken[0].Path)
}

func TestLinksLeadBothWays(t *testing.T) {
	t.Parallel()
	m := New()
	web := add(t, m, "", "pods", "Pod", "shop", "web", "u1", func(i *Item) {
		i.OwnerUIDs = []string{"u2", "u9"} // without an edge
		i.Edges = []Edge{{Type: Reference, To: Ref{Resource: "secrets", Namespace: "shop", Name: "gone"}}}
	})
	set := add(t, m, "apps", "replicasets", "ReplicaSet", "shop", "web", "u2")
	g := m.Graph()
	links := g.Links(web)
	require.Len(t, links, 3)
	require.Nil(t, links[0].Item)
	require.Equal(t, Link{From: web, Edge: Edge{Type: Owner, To: set.Ref(), Path: "metadata.ownerReferences"}, Item: set},
		links[1])
	require.Equal(t, Link{From: web, Edge: Edge{Type: Owner, To: Ref{UID: "u9"}, Path: "metadata.ownerReferences"}},
		links[2])
	require.Equal(t, links[1:2], g.Referrers(set))
	require.Empty(t, g.Referrers(web))
}

func TestWhy(t *testing.T) {
	t.Parallel()
	m := New()
	of := func(name string) func(*Item) {
		return func(i *Item) {
			i.Included = Inclusion{By: ByAction, Plugin: "example.io/a", Of: &Ref{Resource: "pods", Namespace: "shop",
				Name: name}}
		}
	}
	add(t, m, "", "pods", "Pod", "shop", "selected", "", func(i *Item) { i.Included.By = ByFilters })
	second := add(t, m, "", "pods", "Pod", "shop", "second", "", of("selected"))
	third := add(t, m, "", "pods", "Pod", "shop", "third", "", of("second"))
	lost := add(t, m, "", "pods", "Pod", "shop", "lost", "", of("nobody"))
	circle := add(t, m, "", "pods", "Pod", "shop", "circle", "", of("circle"))
	names := func(item *Item) (names []string) {
		for _, step := range Why(item) {
			names = append(names, step.Ref.Name+" "+step.Included.By)
		}
		return names
	}
	require.Equal(t, []string{"third action", "second action", "selected filters"}, names(third))
	require.Equal(t, []string{"second action", "selected filters"}, names(second))
	require.Equal(t, []string{"lost action", "nobody "}, names(lost))
	require.Nil(t, Why(lost)[1].Item)
	require.Equal(t, []string{"circle action", "circle "}, names(circle))
}
