package contents

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/cli/status/statustest"
	"github.com/cleat-dev/cleat/server/internal/kube/itemname"
	"github.com/cleat-dev/cleat/server/internal/spec/filter"
)

// cluster returns some thousand items: applications, their namespaces, a resource with its definition in two versions,
// and references to what is not there.
func cluster() []*manifest.Item {
	const n = 4000
	items := make([]*manifest.Item, 0, n)
	for i := range n {
		item := application(i)
		if i%37 == 0 {
			item.Labels["tier"] = []string{"front", "back"}[i%2]
		}
		if i%1000 == 999 {
			item.Edges = append(item.Edges, manifest.Edge{Type: manifest.Reference,
				To: manifest.Ref{Resource: "secrets", Namespace: item.Namespace, Name: "gone"}},
				manifest.Edge{Type: manifest.Owner, To: manifest.Ref{Kind: "Ghost", Name: "gone", UID: "gone"}})
		}
		items = append(items, item)
	}
	for _, name := range []string{"team-0000", "team-0001", "team-0002", "team-0003"} {
		items = append(items, &manifest.Item{APIVersion: "v1", Resource: "namespaces", ItemKind: "Namespace", Name: name,
			Labels:   map[string]string{"kubernetes.io/metadata.name": name},
			Included: manifest.Inclusion{By: manifest.ByContent}})
	}
	items = append(items, &manifest.Item{APIGroup: "apiextensions.k8s.io", APIVersion: "v1",
		Resource: "customresourcedefinitions", ItemKind: "CustomResourceDefinition", Name: "boats.example.com"})
	for i := range 600 {
		for _, version := range []string{"v1", "v2"} {
			boat := &manifest.Item{APIGroup: "example.com", APIVersion: version, Resource: "boats", ItemKind: "Boat",
				Namespace: "team-0001", Name: fmt.Sprintf("boat-%03d", i), UID: fmt.Sprintf("boat-%03d", i)}
			if i > 0 { // each refers to the one before, by kind and by UID
				boat.Edges = []manifest.Edge{{Type: manifest.Reference, To: manifest.Ref{Group: "example.com", Kind: "Boat",
					Namespace: "team-0001", Name: fmt.Sprintf("boat-%03d", i-1)}}}
				boat.OwnerUIDs = []string{fmt.Sprintf("boat-%03d", i-1)}
				of := manifest.Ref{Group: "example.com", Resource: "boats", Namespace: "team-0001",
					Name: fmt.Sprintf("boat-%03d", i-1)}
				boat.Included = manifest.Inclusion{By: manifest.ByAction, Plugin: "example.com/fleet", Of: &of}
			}
			items = append(items, boat)
		}
	}
	return items
}

// bytesOf returns the file of a manifest.
func bytesOf(t testing.TB, items ...*manifest.Item) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := manifest.NewWriter(&file, manifest.Header{Backup: manifest.Backup{Name: "nightly"}},
		manifest.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	for _, item := range items {
		require.NoError(t, w.Add(item))
	}
	require.NoError(t, w.Close())
	return file.Bytes()
}

func open(t testing.TB, file []byte) *Manifest {
	t.Helper()
	m, err := Open(t.Context(), "nightly", AtHand(bytes.NewReader(file), int64(len(file))), Options{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// selectors returns selectors for labels.
func selectors(t testing.TB, texts ...string) (all []*metav1.LabelSelector) {
	t.Helper()
	for _, text := range texts {
		one, err := metav1.ParseToLabelSelector(text)
		require.NoError(t, err)
		all = append(all, one)
	}
	return all
}

func selecting(t testing.TB, filters Filters) *Selection {
	t.Helper()
	s, err := NewSelection(filters)
	require.NoError(t, err)
	return s
}

// positions returns what identifies items.
func positions(items []*manifest.Item) []string {
	all := []string{}
	for _, item := range items {
		all = append(all, after(item))
	}
	return all
}

// All pages together have what one reading of all items has, with an index and without one.
func TestPagesHaveEachSelectedItemOnce(t *testing.T) {
	t.Parallel()
	items := cluster()
	file := bytesOf(t, items...)
	plain, indexed := open(t, file), open(t, file)
	require.NoError(t, indexed.Index(t.Context()))
	sorted := slices.SortedFunc(slices.Values(items), func(a, b *manifest.Item) int {
		return cmp.Or(a.Ref().Compare(b.Ref()), strings.Compare(a.APIVersion, b.APIVersion))
	})
	for name, tt := range map[string]struct {
		filters Filters
		within  manifest.Ref
		want    int
	}{
		"everything":     {Filters{}, manifest.Ref{}, len(items)},
		"resource":       {Filters{}, manifest.Ref{Resource: "persistentvolumes"}, 200},
		"of a namespace": {Filters{}, manifest.Ref{Resource: "pods", Namespace: "team-0002"}, 750},
		"group":          {Filters{}, manifest.Ref{Group: "example.com", Resource: "boats", Namespace: "team-0001"}, 1200},
		"no resource":    {Filters{}, manifest.Ref{Resource: "nothing"}, 0},
		"namespaces":     {Filters{IncludedNamespaces: []string{"team-000[12]"}}, manifest.Ref{}, 1900 + 2 + 1200},
		"without some": {Filters{ExcludedNamespaces: []string{"team-0001"}}, manifest.Ref{},
			len(items) - 950 - 1 - 1200 - 201},
		"resources":      {Filters{Resources: filter.ResourceLists{Included: []string{"boat", "rs"}}}, manifest.Ref{}, 1400},
		"search":         {Filters{Name: "DATA-app-0"}, manifest.Ref{}, 40},
		"search one":     {Filters{Name: "pv-00000f90"}, manifest.Ref{}, 1},
		"search none":    {Filters{Name: "nowhere"}, manifest.Ref{}, 0},
		"label":          {Filters{Selectors: selectors(t, "tier=front")}, manifest.Ref{}, 55},
		"one of labels":  {Filters{Selectors: selectors(t, "tier in (front,back)")}, manifest.Ref{}, 109},
		"either":         {Filters{Selectors: selectors(t, "tier=front", "tier=back")}, manifest.Ref{}, 109},
		"has a label":    {Filters{Selectors: selectors(t, "tier")}, manifest.Ref{}, 109},
		"lacks a label":  {Filters{Selectors: selectors(t, "!tier")}, manifest.Ref{}, len(items) - 109},
		"another value":  {Filters{Selectors: selectors(t, "tier notin (front)")}, manifest.Ref{}, len(items) - 55},
		"both":           {Filters{Selectors: selectors(t, "tier=front,app.kubernetes.io/name=app-00")}, manifest.Ref{}, 1},
		"label and name": {Filters{Selectors: selectors(t, "tier=front"), Name: "pv-"}, manifest.Ref{}, 5},
		"label, in a namespace": {Filters{Selectors: selectors(t, "tier=none"), IncludedNamespaces: []string{"team-0003"}},
			manifest.Ref{}, 1},
		"no such label": {Filters{Selectors: selectors(t, "none=such")}, manifest.Ref{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := []string{}
			s := selecting(t, tt.filters)
			for _, item := range sorted {
				in, err := s.Match(item)
				require.NoError(t, err)
				if in && isWithin(item, tt.within) {
					want = append(want, after(item))
				}
			}
			require.Len(t, want, tt.want)
			for _, m := range []*Manifest{plain, indexed} {
				whole, err := m.List(t.Context(), selecting(t, tt.filters), tt.within, Page{})
				require.NoError(t, err)
				require.Equal(t, want, positions(whole.Items))
				require.Empty(t, whole.Next)
				got, page := []string{}, Page{Limit: max(1, tt.want/3)}
				for {
					list, err := m.List(t.Context(), selecting(t, tt.filters), tt.within, page)
					require.NoError(t, err)
					require.LessOrEqual(t, len(list.Items), page.Limit)
					got = append(got, positions(list.Items)...)
					if page.After = list.Next; page.After == "" {
						break
					}
				}
				require.Equal(t, want, got)
			}
			if tt.within.Resource == "" && (!s.needsItems() || tt.want < 100) { // the others take longer
				treesCount(t, plain, indexed, tt.filters, want)
			}
		})
	}
}

// treesCount fails the test unless the trees of manifests have the numbers of the wanted items.
func treesCount(t *testing.T, plain, indexed *Manifest, filters Filters, want []string) {
	t.Helper()
	counts := map[string]map[string]int64{} // by namespace and resource
	for _, position := range want {
		parts := strings.Split(position, "/")
		if counts[parts[2]] == nil {
			counts[parts[2]] = map[string]int64{}
		}
		counts[parts[2]][parts[0]+"/"+parts[1]]++
	}
	for m, limit := range map[*Manifest]int{plain: 0, indexed: 3} {
		got := map[string]map[string]int64{}
		for _, namespace := range branches(t, limit, func(page Page) (*Tree, error) {
			return m.Namespaces(t.Context(), selecting(t, filters), page)
		}) {
			resources := map[string]int64{}
			for _, branch := range branches(t, limit, func(page Page) (*Tree, error) {
				tree, err := m.Resources(t.Context(), selecting(t, filters), &namespace.Namespace, page)
				require.Equal(t, namespace.Items, tree.Items)
				return tree, err
			}) {
				resources[branch.Group+"/"+branch.Resource] = branch.Items
			}
			got[namespace.Namespace] = resources
		}
		require.Equal(t, counts, got)
		all, err := m.Resources(t.Context(), selecting(t, filters), nil, Page{})
		require.NoError(t, err)
		require.EqualValues(t, len(want), all.Items)
	}
}

// branches returns the branches of all pages, which must be sorted.
func branches(t *testing.T, limit int, ask func(Page) (*Tree, error)) (all []Branch) {
	t.Helper()
	for page := (Page{Limit: limit}); ; {
		tree, err := ask(page)
		require.NoError(t, err)
		require.False(t, tree.AtLeast)
		all = append(all, tree.Branches...)
		if page.After = tree.Next; page.After == "" {
			require.True(t, slices.IsSortedFunc(all, Branch.compare))
			return all
		}
		require.Len(t, tree.Branches, limit)
	}
}

func TestItemAndWhatDependsOnIt(t *testing.T) {
	t.Parallel()
	items := cluster()
	m := open(t, bytesOf(t, items...))
	all := manifest.New()
	for _, item := range items {
		_, err := all.Add(item)
		require.NoError(t, err)
	}
	graph := all.Graph()
	for _, args := range []string{
		"pods/team-0001/app-04-00000442", "configmaps/team-0002/app-07", "sa/team-0000/app-00", "pv/pv-00000f90",
		"rs/app-49", "boat/boat-000", "boats.example.com/team-0001/boat-300", "ns/team-0003",
	} {
		name, err := itemname.Parse(args)
		require.NoError(t, err)
		if name.AnyNamespace && name.Resource == "rs" {
			_, err = m.Find(t.Context(), name)
			require.ErrorContains(t, err, "nightly: several items have this name, say which: replicasets.apps/team-0000/app-49")
			continue
		}
		doc, err := m.Item(t.Context(), name, &Page{})
		require.NoError(t, err, args)
		want := map[string]int{}
		ref := doc.Ref()
		ref.UID = "" // which two versions have
		target := all.Find(ref)
		for _, link := range graph.Referrers(target) {
			want[fmt.Sprint(link.From.Ref(), link.Edge)]++
		}
		got, page := map[string]int{}, Page{Limit: 4}
		for n := 0; ; n++ {
			part, err := m.Item(t.Context(), name, &page)
			require.NoError(t, err)
			for _, referrer := range part.Referrers {
				if referrer.Edge.Type == manifest.Owner && referrer.Edge.To.Name == "" { // the graph says more of its owner
					referrer.Edge.To = target.Ref()
				}
				got[fmt.Sprint(referrer.Item, referrer.Edge)]++
			}
			if page.After = part.Next; page.After == "" {
				require.Equal(t, len(doc.Referrers) > 4, n > 0)
				break
			}
		}
		require.Equal(t, want, got, args)
	}
	for args, want := range map[string]string{
		"pods/nowhere": "nightly has no item pods/nowhere", "ships/x": "nightly has no item ships/x",
	} {
		name, err := itemname.Parse(args)
		require.NoError(t, err)
		_, err = m.Item(t.Context(), name, nil)
		require.EqualError(t, err, want)
	}
}

func TestWhyOfALongChain(t *testing.T) {
	t.Parallel()
	m := open(t, bytesOf(t, cluster()...))
	name, err := itemname.Parse("boat/boat-250")
	require.NoError(t, err)
	doc, err := m.Why(t.Context(), name, Page{Limit: 1})
	require.NoError(t, err)
	require.Len(t, doc.Chain, longestChain+1)
	require.Equal(t, "the action example.com/fleet has requested it for boats.example.com/team-0001/boat-249",
		doc.Chain[0].Sentence())
	require.Equal(t, "the chain goes on", doc.Chain[longestChain].Sentence())
	require.Len(t, doc.Referrers, 2)
}

func TestAround(t *testing.T) {
	t.Parallel()
	items := cluster()
	m := open(t, bytesOf(t, items...))
	find := func(args string) *manifest.Item {
		name, err := itemname.Parse(args)
		require.NoError(t, err)
		item, err := m.Find(t.Context(), name)
		require.NoError(t, err)
		return item
	}
	for name, tt := range map[string]struct {
		item   string
		around Around
		nodes  int
		notes  []string
	}{
		"needs": {"pods/team-0001/app-04-00000442", Around{Needs: true}, 6, nil},
		"needs, one step": {"pods/team-0001/app-04-00000442", Around{Needs: true, Depth: 1}, 5,
			[]string{"1 dependency to other items of the backup left out."}},
		"referrers": {"pv/pv-00000400", Around{Referrers: true}, 17, nil},
		"both": {"configmaps/team-0001/app-03", Around{Needs: true, Referrers: true, Depth: 2}, 19,
			[]string{"1 dependency to other items of the backup left out."}},
		"missing ones": {"pods/team-0000/app-49-000003e7", Around{Needs: true, Depth: 1}, 7,
			[]string{"1 dependency to other items of the backup left out.",
				"2 objects that items depend on are not in the backup."}},
		"limited": {"configmaps/team-0001/app-03", Around{Referrers: true, Most: 9}, 9,
			[]string{"More than 9 items are around this one: the nearest are shown."}},
		"limited needs": {"boats.example.com/team-0001/boat-300", Around{Needs: true, Most: 5}, 5,
			[]string{"2 dependencies to other items of the backup left out.",
				"More than 5 items are around this one: the nearest are shown."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			graph, err := m.Around(t.Context(), find(tt.item), tt.around)
			require.NoError(t, err)
			require.Equal(t, tt.notes, graph.Notes)
			require.Len(t, graph.Nodes, tt.nodes)
		})
	}
	_, err := m.Around(t.Context(), find("pv/pv-00000400"), Around{Depth: -1})
	require.ErrorContains(t, err, "not negative")
}

// A graph of a part says of its items what the graph of the whole says.
func TestGraphOfASelection(t *testing.T) {
	t.Parallel()
	m := open(t, bytesOf(t, cluster()...))
	whole, err := m.Graph(t.Context(), selecting(t, Filters{}), 0)
	require.NoError(t, err)
	waves := map[string]int{}
	for i := range whole.Nodes {
		n := &whole.Nodes[i]
		waves[n.Resource+n.Namespace+n.Name] = n.Wave
	}
	for name, tt := range map[string]struct {
		filters      Filters
		most, nodes  int
		edges, notes int
	}{
		"namespace":   {Filters{IncludedNamespaces: []string{"team-0002"}}, 0, 953, 3002, 2},
		"few":         {Filters{Name: "app-49", IncludedNamespaces: []string{"team-0000"}}, 0, 21, 62, 2},
		"at most":     {Filters{IncludedNamespaces: []string{"team-0002"}}, 50, 50, 0, 1},
		"definitions": {Filters{Resources: filter.ResourceLists{Included: []string{"crd"}}}, 0, 1, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part, err := m.Graph(t.Context(), selecting(t, tt.filters), tt.most)
			require.NoError(t, err)
			for i := range part.Nodes {
				if n := &part.Nodes[i]; !n.Missing {
					require.Equal(t, waves[n.Resource+n.Namespace+n.Name], n.Wave, n.Name)
				}
			}
			require.Equal(t, []int{tt.nodes, tt.edges, tt.notes}, []int{len(part.Nodes), len(part.Edges), len(part.Notes)},
				part.Notes)
		})
	}
	_, err = m.Graph(t.Context(), selecting(t, Filters{}), -1)
	require.ErrorContains(t, err, "not negative")
}

func TestDiffInPages(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	var later []*manifest.Item
	for _, item := range cluster() {
		switch random.IntN(50) {
		case 0:
			continue
		case 1:
			item.Annotations = map[string]string{"changed": "yes"}
		case 2:
			item.UID = "anew-" + item.UID
		case 3:
			another := *item
			another.Name += "-new"
			later = append(later, &another)
		}
		later = append(later, item)
	}
	first, second := bytesOf(t, cluster()...), bytesOf(t, later...)
	before, after, indexedBefore, indexedAfter := open(t, first), open(t, second), open(t, first), open(t, second)
	require.NoError(t, indexedBefore.Index(t.Context()))
	require.NoError(t, indexedAfter.Index(t.Context()))
	for name, filters := range map[string]Filters{"all": {}, "some": {IncludedNamespaces: []string{"team-0001"}},
		"few": {Name: "pv-"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole, err := Diff(t.Context(), before, after, filters, Page{})
			require.NoError(t, err)
			require.NotEmpty(t, whole.Changes)
			require.Empty(t, whole.Next)
			for _, sides := range [][2]*Manifest{{before, after}, {indexedBefore, after}, {indexedBefore, indexedAfter}} {
				var got []Change
				for page := (Page{Limit: 1 + len(whole.Changes)/5}); ; {
					part, err := Diff(t.Context(), sides[0], sides[1], filters, page)
					require.NoError(t, err)
					require.LessOrEqual(t, len(part.Changes), page.Limit)
					got = append(got, part.Changes...)
					if page.After = part.Next; page.After == "" {
						break
					}
				}
				require.Equal(t, whole.Changes, got)
			}
		})
	}
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	m := open(t, bytesOf(t, cluster()...))
	later := cluster()
	later[1].Labels = map[string]string{"tier": "front"}
	changed := open(t, bytesOf(t, later...))
	name, err := itemname.Parse("configmaps/team-0001/app-03")
	require.NoError(t, err)
	namespace := "team-0001"
	documents := map[string]any{}
	keep := func(name string) func(any, error) {
		return func(document any, err error) {
			require.NoError(t, err)
			documents[name] = document
		}
	}
	as := func(document any, err error) (any, error) { return document, err }
	keep("namespaces")(as(m.Namespaces(t.Context(), selecting(t, Filters{}), Page{Limit: 3})))
	keep("resources")(as(m.Resources(t.Context(), selecting(t, Filters{}), &namespace, Page{Limit: 3})))
	keep("items")(as(m.List(t.Context(), selecting(t, Filters{Name: "app-0"}), manifest.Ref{Resource: "pods",
		Namespace: namespace}, Page{Limit: 2})))
	keep("item")(as(m.Item(t.Context(), name, &Page{Limit: 2})))
	keep("why")(as(m.Why(t.Context(), name, Page{Limit: 1})))
	keep("changes")(as(Diff(t.Context(), m, changed, Filters{}, Page{Limit: 5})))
	statustest.Golden(t, "documents.json", func(w io.Writer) error {
		out := json.NewEncoder(w)
		out.SetIndent("", "  ")
		return out.Encode(documents)
	})
}

func TestWrongPages(t *testing.T) {
	t.Parallel()
	m := open(t, bytesOf(t, application(0)))
	for _, page := range []Page{{After: "x"}, {After: "a/b/c/d/e/f"}, {After: "//x//v1"}, {Limit: -1}} {
		_, err := m.List(t.Context(), selecting(t, Filters{}), manifest.Ref{}, page)
		require.ErrorContains(t, err, "want")
		_, err = m.Namespaces(t.Context(), selecting(t, Filters{}), page)
		require.ErrorContains(t, err, "want")
		_, err = Diff(t.Context(), m, m, Filters{}, page)
		require.ErrorContains(t, err, "want")
		_, err = m.Why(t.Context(), itemname.Name{Resource: "rs", Name: "app-00", AnyNamespace: true}, page)
		require.ErrorContains(t, err, "want")
	}
}

func TestEmptyManifest(t *testing.T) {
	t.Parallel()
	m := open(t, bytesOf(t))
	for range 2 { // without the index, and with it
		list, err := m.List(t.Context(), selecting(t, Filters{}), manifest.Ref{}, Page{Limit: 1})
		require.NoError(t, err)
		require.Equal(t, &List{Items: []*manifest.Item{}}, list)
		tree, err := m.Namespaces(t.Context(), selecting(t, Filters{}), Page{Limit: 1})
		require.NoError(t, err)
		require.Equal(t, &Tree{Branches: []Branch{}}, tree)
		require.NoError(t, m.Index(t.Context()))
	}
}

func TestSpaceOfTemporaryFilesIsLimited(t *testing.T) {
	t.Parallel()
	file := bytesOf(t, cluster()...)
	source := AtHand(bytes.NewReader(file), int64(len(file)))
	m, err := Open(t.Context(), "nightly", source, Options{Dir: t.TempDir(), MaxBytes: 10_000})
	require.NoError(t, err)
	require.ErrorContains(t, m.Index(t.Context()), "nightly: write the index of the manifest: the manifest is larger than")
	list, err := m.List(t.Context(), selecting(t, Filters{}), manifest.Ref{}, Page{Limit: 10})
	require.NoError(t, err)
	require.Len(t, list.Items, 10)
	require.NoError(t, m.Close())

	var again bytes.Buffer
	w := gzip.NewWriter(&again)
	plain, err := gzip.NewReader(bytes.NewReader(file))
	require.NoError(t, err)
	_, err = io.Copy(w, plain)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	source = AtHand(bytes.NewReader(again.Bytes()), int64(again.Len()))
	_, err = Open(t.Context(), "nightly", source, Options{Dir: t.TempDir(), MaxBytes: 10_000})
	require.ErrorContains(t, err, "larger than the space for temporary files allows")
	m, err = Open(t.Context(), "nightly", source, Options{Dir: t.TempDir()})
	require.NoError(t, err)
	tree, err := m.Namespaces(t.Context(), selecting(t, Filters{}), Page{})
	require.NoError(t, err)
	require.EqualValues(t, len(cluster()), tree.Items)
	require.NoError(t, m.Close())
}

// Viewers leave while an index is made. The next one gets it.
func TestIndexThatWasGivenUpLeavesNothing(t *testing.T) {
	t.Parallel()
	m := open(t, bytesOf(t, cluster()...))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := m.state(t.Context(), true)
	require.NoError(t, err)
	require.NoError(t, m.indexing.take(t.Context())) // as who makes an index does
	list, err := m.List(t.Context(), selecting(t, Filters{}), manifest.Ref{}, Page{Limit: 1})
	require.NoError(t, err)
	require.Len(t, list.Items, 1, "who needs no index does not wait for it")
	brief, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	require.ErrorIs(t, m.Index(brief), context.DeadlineExceeded, "who needs it does")
	m.indexing.give()
	_, err = newIndex(ctx, m.now.file, m.now.blocks, m.scratch)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, m.scratch.files)
	require.EqualValues(t, DefaultMaxBytes, m.scratch.left)

	var group errgroup.Group // all of them get the same one
	for range 4 {
		group.Go(func() error {
			if err := m.Index(t.Context()); err != nil {
				return err
			}
			tree, err := m.Namespaces(t.Context(), selecting(t, Filters{}), Page{Limit: 1})
			require.EqualValues(t, len(cluster()), tree.Items)
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.Len(t, m.scratch.files, 4)
}

// elsewhere is a source that counts its requests.
type elsewhere struct {
	Source
	requests atomic.Int32
}

func (e *elsewhere) ReadRange(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
	e.requests.Add(1)
	return e.Source.ReadRange(ctx, offset, length)
}

func (e *elsewhere) Open(ctx context.Context) (io.ReadCloser, error) {
	e.requests.Add(1)
	return e.Source.Open(ctx)
}

func TestSourceElsewhereIsCopiedOnce(t *testing.T) {
	t.Parallel()
	file := bytesOf(t, cluster()...)
	source := &elsewhere{Source: AtHand(bytes.NewReader(file), int64(len(file)))}
	m, err := Open(t.Context(), "nightly", source, Options{Dir: t.TempDir()})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	name, err := itemname.Parse("configmaps/team-0001/app-03")
	require.NoError(t, err)
	for range 3 {
		_, err := m.Item(t.Context(), name, nil)
		require.NoError(t, err)
	}
	require.EqualValues(t, 3, source.requests.Load(), "one part of the file for each")
	for range 3 {
		doc, err := m.Item(t.Context(), name, &Page{})
		require.NoError(t, err)
		require.Len(t, doc.Referrers, 15)
		_, err = m.Around(t.Context(), doc.Item, Around{Needs: true, Referrers: true})
		require.NoError(t, err)
	}
	require.LessOrEqual(t, source.requests.Load(), int32(5), "the whole file once, after one part for the item")
}

// Damage is an error, or it is harmless: nothing is wrong, nothing is missing, and nothing hangs.
func FuzzDamagedManifests(f *testing.F) {
	var items []*manifest.Item
	for i := range 12 {
		items = append(items, application(i))
	}
	good := bytesOf(f, items...)
	f.Add(good, "app")
	f.Add(good[:len(good)/2], "")
	f.Add([]byte(`{"manifest":1,"items":[]`), "x")
	for at := 0; at < len(good); at += 29 {
		damaged := bytes.Clone(good)
		damaged[at] ^= 0x55
		f.Add(damaged, "pv-")
	}
	f.Fuzz(func(t *testing.T, file []byte, text string) {
		m, err := Open(t.Context(), "bad", AtHand(bytes.NewReader(file), int64(len(file))), Options{MaxBytes: 1 << 20})
		if err != nil {
			require.ErrorContains(t, err, "bad: ")
			return
		}
		defer func() { require.NoError(t, m.Close()) }()
		for range 2 {
			list, err := m.List(t.Context(), selecting(t, Filters{Name: text}), manifest.Ref{}, Page{Limit: 5})
			if err != nil {
				require.ErrorContains(t, err, "bad: ")
				return
			}
			for _, item := range list.Items {
				if _, err := m.Around(t.Context(), item, Around{Needs: true, Referrers: true, Most: 4}); err != nil {
					return
				}
			}
			if _, err := m.Namespaces(t.Context(), selecting(t, Filters{}), Page{Limit: 2}); err != nil {
				return
			}
		}
	})
}
