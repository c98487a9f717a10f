package manifest_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	servermanifest "github.com/cleat-dev/cleat/server/internal/bucket/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/reference"
	"github.com/cleat-dev/cleat/versioning/manifestwriter"
)

func TestItemsOfAnArchiveKeepTheirOrigins(t *testing.T) {
	t.Parallel()
	secret := manifest.Edge{Type: manifest.Action, To: manifest.Ref{Resource: "secrets", Kind: "Secret", Namespace: "shop",
		Name: "s"}, Plugin: "example.io/a"}
	byAction := manifest.Inclusion{By: manifest.ByAction, Plugin: "example.io/a",
		Of: &manifest.Ref{Resource: "pods", Namespace: "shop", Name: "web"}}
	var before bytes.Buffer
	w, err := manifest.NewWriter(&before, manifest.Header{Backup: manifest.Backup{Name: "b"}},
		manifest.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	for _, item := range []*manifest.Item{
		{APIVersion: "v1", Resource: "pods", ItemKind: "Pod", Namespace: "shop", Name: "web",
			Labels:   map[string]string{"old": "yes"},
			Included: manifest.Inclusion{By: manifest.ByFilters}, Edges: []manifest.Edge{secret,
				{Type: manifest.Reference, To: manifest.Ref{Kind: "ConfigMap", Namespace: "shop", Name: "gone"}}}},
		{APIVersion: "v1", Resource: "secrets", ItemKind: "Secret", Namespace: "shop", Name: "s", Included: byAction},
		{APIVersion: "v1", Resource: "pods", ItemKind: "Pod", Namespace: "shop", Name: "other",
			Included: manifest.Inclusion{By: manifest.ByFilters}},
	} {
		require.NoError(t, w.Add(item))
	}
	require.NoError(t, w.Close())

	var packed bytes.Buffer
	a, err := archive.NewWriter(&packed, time.Unix(0, 0))
	require.NoError(t, err)
	objects := map[string]string{
		"web":    `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"web","labels":{"new":"yes"}},"spec":{"serviceAccountName":"robot"}}`,
		"other":  `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"other"}}`,
		"posted": `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"posted"}}`,
		"new":    `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"new"}}`,
	}
	for _, name := range []string{"web", "posted", "new", "other"} {
		require.NoError(t, a.Item(schema.GroupResource{Resource: "pods"}, "v1", true, "shop", name, []byte(objects[name])))
	}
	const s = `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"shop","name":"s"}}`
	require.NoError(t, a.Item(schema.GroupResource{Resource: "secrets"}, "v1", true, "shop", "s", []byte(s)))
	require.NoError(t, a.Close())

	origins := servermanifest.NewOrigins()
	require.NoError(t, origins.Read(&before))
	posted := manifest.Inclusion{By: manifest.ByAction, Plugin: "example.io/mover"}
	for _, name := range []string{"posted", "other"} {
		origins.Post(framework.ResourceIdentifier{Resource: "pods", Namespace: "shop", Name: name}, posted)
	}
	items := map[string]*manifestwriter.Item{}
	var order []string
	require.NoError(t, servermanifest.Items(t.Context(), bytes.NewReader(packed.Bytes()), reference.BuiltIn(), origins,
		func(item *manifestwriter.Item, object []byte) {
			items[item.Name] = item
			order = append(order, item.Name)
			if item.Resource == "pods" {
				require.Equal(t, objects[item.Name], string(object))
			}
		}))
	require.Equal(t, []string{"web", "posted", "new", "other", "s"}, order)
	require.Equal(t, map[string]string{"new": "yes"}, items["web"].Labels, "as they are in the archive")
	require.Equal(t, manifest.Inclusion{By: manifest.ByFilters}, items["web"].Included)
	require.Contains(t, items["web"].References, secret)
	require.Equal(t, []framework.ResourceIdentifier{{Resource: "secrets", Namespace: "shop", Name: "s"}},
		items["web"].Related)
	var to []string
	for _, edge := range items["web"].References {
		to = append(to, edge.To.Name)
	}
	require.Contains(t, to, "robot")
	require.NotContains(t, to, "gone")
	require.Equal(t, byAction, items["s"].Included)
	require.Equal(t, manifest.Inclusion{By: manifest.ByFilters}, items["other"].Included, "what the manifest knows")
	require.Equal(t, posted, items["posted"].Included)
	require.Zero(t, items["new"].Included)

	err = servermanifest.Items(t.Context(), bytes.NewReader(packed.Bytes()[:packed.Len()-20]), reference.BuiltIn(),
		origins, func(*manifestwriter.Item, []byte) {})
	require.True(t, archive.IsDamage(err), "%v", err)
}
