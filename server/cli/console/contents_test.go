package console

import (
	"bytes"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/cli/status/contents"
	"github.com/cleat-dev/cleat/server/internal/console"
	"github.com/cleat-dev/cleat/server/internal/kube/itemname"
)

// tenThousand returns a manifest of 10,000 config maps in ten namespaces, which all depend on the Secret that they have
// too, with the index that the console makes.
func tenThousand(t *testing.T) *contents.Manifest {
	t.Helper()
	var file bytes.Buffer
	w, err := manifest.NewWriter(&file, manifest.Header{Backup: manifest.Backup{Name: "many"}},
		manifest.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	key := &manifest.Item{APIVersion: "v1", Resource: "secrets", ItemKind: "Secret", Namespace: "team-0", Name: "key",
		Annotations: map[string]string{"part": "of-the-content"}, Included: manifest.Inclusion{By: manifest.ByFilters}}
	require.NoError(t, w.Add(key))
	for i := range 10_000 {
		require.NoError(t, w.Add(&manifest.Item{APIVersion: "v1", Resource: "configmaps", ItemKind: "ConfigMap",
			Namespace: fmt.Sprintf("team-%d", i%10), Name: fmt.Sprintf("item-%05d", i),
			Labels:   map[string]string{"app": fmt.Sprintf("app-%d", i%100)},
			Included: manifest.Inclusion{By: manifest.ByAction, Plugin: "example.com/a", Of: new(key.Ref())},
			Edges:    []manifest.Edge{{Type: manifest.Reference, Strict: true, Path: "data.key", To: key.Ref()}}}))
	}
	require.NoError(t, w.Close())
	m, err := contents.Open(t.Context(), "many", contents.AtHand(bytes.NewReader(file.Bytes()), int64(file.Len())),
		contents.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	require.NoError(t, m.Index(t.Context()))
	return m
}

// base returns what the documents of a backup have, for the parameters of a request.
func base(t *testing.T, parameters string, others ...string) inBackup {
	t.Helper()
	values, err := url.ParseQuery(parameters)
	require.NoError(t, err)
	asked, err := newQuery(values, others...)
	require.NoError(t, err)
	return inBackup{Backup: "many", Back: "/backups/many", asked: asked}
}

func TestContents(t *testing.T) {
	t.Parallel()
	m := tenThousand(t)
	for parameters, want := range map[string]struct {
		first, count string // the text of the first cell, and how many items there are
		rows         int
		next         bool
	}{
		"":                                     {"team-0", "10001 items", 10, false},
		"namespace=team-3":                     {"configmaps", "1000 items", 1, false},
		"namespace=":                           {"", "0 items", 0, false},
		"resource=configmaps&list=yes":         {"item-00000", "", 50, true},
		"namespace=team-3&resource=configmaps": {"item-00003", "", 50, true},
		"search=ITEM-0777":                     {"team-0", "10 items", 10, false},
		"search=0777&list=yes":                 {"item-07770", "", 11, false},
		"selector=app%3Dapp-7":                 {"team-7", "100 items", 1, false},
		"include-resources=Secret":             {"team-0", "1 item", 1, false},
		"exclude-namespaces=team-0&list=":      {"team-1", "9000 items", 9, false},
	} {
		doc := &contentsDocument{inBackup: base(t, parameters, "namespace", "resource", "after", "list")}
		began := time.Now()
		require.NoError(t, doc.fill(t.Context(), m), parameters)
		require.Less(t, time.Since(began), 5*time.Second, parameters)
		require.Len(t, doc.Table.Rows, want.rows, parameters)
		if want.rows > 0 {
			require.Equal(t, want.first, doc.Table.Rows[0][0].Text, parameters)
		}
		require.Equal(t, want.count, doc.Count, parameters)
		require.Equal(t, want.next, doc.Next != "", parameters)
	}
}

// The pages of a list have each item once.
func TestContentsPages(t *testing.T) {
	t.Parallel()
	m := tenThousand(t)
	seen := map[string]bool{}
	for parameters := "namespace=team-3&resource=configmaps"; ; {
		doc := &contentsDocument{inBackup: base(t, parameters, "namespace", "resource", "after")}
		require.NoError(t, doc.fill(t.Context(), m))
		for _, item := range doc.List.Items {
			require.False(t, seen[item.Name], item.Name)
			seen[item.Name] = true
		}
		if doc.Next == "" {
			break
		}
		next, err := url.Parse(doc.Next)
		require.NoError(t, err)
		parameters = next.RawQuery
	}
	require.Len(t, seen, 1000)
}

func TestItem(t *testing.T) {
	t.Parallel()
	m := tenThousand(t)
	doc := &itemDocument{inBackup: base(t, "item=configmaps/team-3/item-00003", "item", "from", "after")}
	require.NoError(t, doc.fill(t.Context(), m))
	require.Equal(t, "/backups/many/item?item=secrets%2Fteam-0%2Fkey", doc.Needs.Rows[0][0].Href)
	require.Equal(t, "strict", doc.Needs.Rows[0][1].Text)
	require.Empty(t, doc.NeededBy.Rows)
	require.Len(t, doc.Why, 2)
	require.Contains(t, doc.Why[0].Because, "example.com/a has requested it for secrets/team-0/key")

	doc = &itemDocument{inBackup: base(t, "item=Secret/team-0/key", "item", "from", "after")}
	require.NoError(t, doc.fill(t.Context(), m))
	require.Equal(t, [][2]string{{"part", "<hidden>"}}, doc.Annotations)
	require.Equal(t, map[string]string{"part": "<hidden>"}, doc.Item.Annotations)
	require.Len(t, doc.NeededBy.Rows, 50)
	require.NotEmpty(t, doc.MoreReferrers)

	for parameters, want := range map[string]error{"item=x": console.Wrong{}, "item=pods/a/b": contents.NoItem{},
		"item=Secret/team-0/key&from=9": console.Wrong{}, "item=Secret/team-0/key&after=x": contents.WrongPage{}} {
		doc := &itemDocument{inBackup: base(t, parameters, "item", "from", "after")}
		require.IsType(t, want, doc.fill(t.Context(), m), parameters)
	}
}

func TestGraph(t *testing.T) {
	t.Parallel()
	m := tenThousand(t)
	graph := func(parameters string) *graphDocument {
		doc := &graphDocument{inBackup: base(t, parameters, "item", "depth", "direction", "find")}
		doc.Item, doc.Find = doc.asked.values.Get("item"), doc.asked.values.Get("find")
		require.NoError(t, doc.fill(t.Context(), m), parameters)
		require.LessOrEqual(t, len(doc.Graph.Nodes), mostBoxes+1, parameters)
		require.Contains(t, doc.Picture, "<svg", parameters)
		require.NotContains(t, doc.Picture, "style=", parameters)
		return doc
	}
	require.Equal(t, "9901 more are not shown: filters select fewer.", graph("").Left)
	require.Empty(t, graph("search=item-0777").Left)
	require.Len(t, graph("item=configmaps/team-3/item-00003&depth=1").Graph.Nodes, 2)
	require.Len(t, graph("item=configmaps/team-3/item-00003&direction=referrers").Graph.Nodes, 1)
	around := graph("item=Secret/team-0/key&find=KEY")
	require.Contains(t, around.Graph.Notes, "More than 100 items are around this one: the nearest are shown.")
	require.Equal(t, "1 of 100 items in the picture, with a thick border.", around.FoundText)
	require.Equal(t, "/backups/many/item?item=secrets%2Fteam-0%2Fkey", around.Found[0].Href)
}

func TestDifference(t *testing.T) {
	t.Parallel()
	m := tenThousand(t)
	one := &differenceDocument{inBackup: base(t, "with=other", "with", "after"), With: "other"}
	require.NoError(t, one.fill(t.Context(), m, m))
	require.Empty(t, one.Changes)
	require.Equal(t, "They do not differ.", one.Table.Empty)

	var file bytes.Buffer
	w, err := manifest.NewWriter(&file, manifest.Header{Backup: manifest.Backup{Name: "other"}},
		manifest.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	require.NoError(t, w.Add(&manifest.Item{APIVersion: "v1", Resource: "secrets", ItemKind: "Secret",
		Namespace: "team-0", Name: "key", Annotations: map[string]string{"part": "another"}}))
	require.NoError(t, w.Close())
	small, err := contents.Open(t.Context(), "other", contents.AtHand(bytes.NewReader(file.Bytes()), int64(file.Len())),
		contents.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, small.Close()) })
	other := &differenceDocument{inBackup: base(t, "with=other&include-resources=secrets", "with", "after"), With: "other"}
	require.NoError(t, other.fill(t.Context(), small, m))
	require.Len(t, other.Changes, 1)
	require.Equal(t, []string{"annotations.part"}, other.Changes[0].Fields)
	require.Equal(t, map[string]string{"part": "<hidden>"}, other.Changes[0].Before.Annotations)
	all := &differenceDocument{inBackup: base(t, "with=other", "with", "after"), With: "other"}
	require.NoError(t, all.fill(t.Context(), small, m))
	require.Len(t, all.Table.Rows, perPage)
	require.Equal(t, "only in many", all.Table.Rows[0][1].Text)
	require.NotEmpty(t, all.Next)
}

func TestQuery(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{"include-namespace=a", "selector=(", "selector=a&selector=b", "search=a&search=b",
		"include-namespaces=["} {
		values, err := url.ParseQuery(wrong)
		require.NoError(t, err)
		_, err = newQuery(values)
		require.IsType(t, console.Wrong{}, err, wrong)
	}
	q := base(t, "exclude-resources=b&search=a&include-namespaces=x&include-namespaces=y").asked
	require.Equal(t, []filter{{Name: "exclude-resources", Value: "b"}}, q.others())
	require.Equal(t, "x,y", q.fields()[3].Value)
}

// FuzzQuery checks that what a request asks for is either refused, as the fault of the request, or kept in the links of
// its page: a link means what the request has meant.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		"search=web&selector=app%3Dweb&include-resources=deploy,pods&include-namespaces=shop&after=1", "selector=(",
		"include-namespaces=a&include-namespaces=%22b%0A%22&include-namespaces=*",
		"include-cluster-resources=maybe&search=%FF",
		"or-selector=a%3Db+or+c%3Dd&exclude-resources=,&item=pods/a/b", "include-resources=a,%22&a=;b",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		values, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		asked, err := newQuery(values, "item", "after")
		if err != nil {
			require.ErrorAs(t, err, new(console.Wrong))
			return
		}
		for name := range asked.kept {
			require.Contains(t, values, name)
		}
		link, err := url.Parse(asked.link("/backups/many/contents", "after", "x"))
		require.NoError(t, err)
		again, err := newQuery(link.Query(), "item", "after")
		require.NoError(t, err)
		require.Equal(t, asked.filters, again.filters)
		require.Equal(t, "x", again.values.Get("after"))
		require.Equal(t, asked.others(), again.others())
		if name, err := itemname.Parse(asked.values.Get("item")); err == nil {
			same, err := itemname.Parse(name.String())
			require.NoError(t, err)
			require.Equal(t, name, same)
		}
	})
}
