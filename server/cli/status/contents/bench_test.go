package contents

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/kube/itemname"
)

// benchItems is the number of items of the manifest in the benchmarks.
const benchItems = 1_000_000

// application returns the item with a number, of a cluster with 1,000 items in each namespace: pods with their sets,
// volumes and config maps.
func application(i int) *manifest.Item {
	namespace, app := fmt.Sprintf("team-%04d", i/1000), fmt.Sprintf("app-%02d", i%1000/20)
	made := &manifest.Item{APIVersion: "v1", Namespace: namespace, UID: fmt.Sprintf("%08x-0000-4000-8000-000000000000", i),
		Labels: map[string]string{"app.kubernetes.io/name": app, "app.kubernetes.io/instance": app + "-" + namespace,
			"app.kubernetes.io/managed-by": "Helm"},
		Included: manifest.Inclusion{By: manifest.ByFilters}}
	refer := func(resource, kind, in, name, path string) {
		made.Edges = append(made.Edges, manifest.Edge{Type: manifest.Reference, Strict: true, Path: path,
			To: manifest.Ref{Resource: resource, Kind: kind, Namespace: in, Name: name}})
	}
	switch n := i % 20; n {
	case 0:
		made.APIGroup, made.Resource, made.ItemKind, made.Name = "apps", "replicasets", "ReplicaSet", app
	case 1:
		made.Resource, made.ItemKind, made.Name = "configmaps", "ConfigMap", app
		made.Annotations = map[string]string{"meta.helm.sh/release-name": app, "meta.helm.sh/release-namespace": namespace}
	case 2:
		made.Resource, made.ItemKind, made.Name = "serviceaccounts", "ServiceAccount", app
	case 3:
		made.Resource, made.ItemKind, made.Name = "persistentvolumeclaims", "PersistentVolumeClaim", "data-"+app
		refer("persistentvolumes", "PersistentVolume", "", fmt.Sprintf("pv-%08x", i+1), "spec.volumeName")
	case 4:
		made.Resource, made.ItemKind, made.Name, made.Namespace = "persistentvolumes", "PersistentVolume",
			fmt.Sprintf("pv-%08x", i), ""
	default:
		made.Resource, made.ItemKind, made.Name = "pods", "Pod", fmt.Sprintf("%s-%08x", app, i)
		made.AddOwner("apps/v1", "ReplicaSet", app, fmt.Sprintf("%08x-0000-4000-8000-000000000000", i-n), true)
		refer("serviceaccounts", "ServiceAccount", namespace, app, "spec.serviceAccountName")
		refer("configmaps", "ConfigMap", namespace, app, "spec.volumes[0].configMap.name")
		refer("persistentvolumeclaims", "PersistentVolumeClaim", namespace, "data-"+app,
			"spec.volumes[1].persistentVolumeClaim.claimName")
	}
	return made
}

// write writes a manifest into a temporary file, and returns it opened.
func write(t testing.TB, name string, n int, item func(int) *manifest.Item) *Manifest {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), name))
	require.NoError(t, err)
	t.Cleanup(func() { _ = file.Close() })
	w, err := manifest.NewWriter(file, manifest.Header{Backup: manifest.Backup{Name: name}},
		manifest.Options{Dir: t.TempDir()})
	require.NoError(t, err)
	for i := range n {
		require.NoError(t, w.Add(item(i)))
	}
	require.NoError(t, w.Close())
	info, err := file.Stat()
	require.NoError(t, err)
	m, err := Open(t.Context(), name, AtHand(file, info.Size()), Options{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// BenchmarkPage measures pages of a manifest of a million items, with its index.
func BenchmarkPage(b *testing.B) {
	m := write(b, "big", benchItems, application)
	changed := write(b, "changed", benchItems, func(i int) *manifest.Item {
		item := application(i)
		if i%100_000 == 77_777 {
			item.Labels["changed"] = "yes"
		}
		return item
	})
	b.Run("index", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			now, err := m.state(b.Context(), true)
			require.NoError(b, err)
			s := &scratch{left: DefaultMaxBytes}
			x, err := newIndex(b.Context(), now.file, now.blocks, s)
			require.NoError(b, err)
			b.ReportMetric(float64(x.runs.file.size()+x.names.file.size()+x.tokens.file.size()+
				x.prints.file.size())/benchItems, "file-B/item")
			require.NoError(b, s.close())
		}
	})
	require.NoError(b, m.Index(b.Context()))
	require.NoError(b, changed.Index(b.Context()))
	page := Page{Limit: 100}
	pod, err := itemname.Parse("pods", fmt.Sprintf("team-0500/app-00-%08x", 500_007))
	require.NoError(b, err)
	config, err := itemname.Parse("configmaps", "team-0500/app-00")
	require.NoError(b, err)
	for name, ask := range map[string]func(s *Selection) error{
		"namespaces": func(s *Selection) error {
			tree, err := m.Namespaces(b.Context(), s, page)
			require.EqualValues(b, benchItems, tree.Items)
			return err
		},
		"resources": func(s *Selection) error {
			namespace := "team-0500"
			_, err := m.Resources(b.Context(), s, &namespace, page)
			return err
		},
		"items": func(s *Selection) error {
			_, err := m.List(b.Context(), s, manifest.Ref{Resource: "pods", Namespace: "team-0500"}, page)
			return err
		},
		"item":      func(*Selection) error { _, err := m.Item(b.Context(), pod, nil); return err },
		"referrers": func(*Selection) error { _, err := m.Item(b.Context(), config, &page); return err },
		"why":       func(*Selection) error { _, err := m.Why(b.Context(), config, page); return err },
		"around": func(*Selection) error {
			item, err := m.Find(b.Context(), pod)
			require.NoError(b, err)
			graph, err := m.Around(b.Context(), item, Around{Needs: true, Referrers: true, Depth: 2, Most: 100})
			require.Greater(b, len(graph.Nodes), 10)
			return err
		},
		"diff": func(*Selection) error {
			doc, err := Diff(b.Context(), m, changed, Filters{}, page)
			require.Len(b, doc.Changes, 10)
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s, err := NewSelection(Filters{})
				require.NoError(b, err)
				require.NoError(b, ask(s))
			}
		})
	}
	for name, filters := range map[string]Filters{
		"search":        {Name: fmt.Sprintf("%08x", 765_437)},
		"search common": {Name: "app-1"},
		"search none":   {Name: "nowhere"},
		"namespace":     {IncludedNamespaces: []string{"team-07*"}},
		"label":         {Selectors: selectors(b, "app.kubernetes.io/instance=app-03-team-0123")},
		"label common":  {Selectors: selectors(b, "app.kubernetes.io/name=app-03")},
		"label not":     {Selectors: selectors(b, "app.kubernetes.io/managed-by notin (Helm)")},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s, err := NewSelection(filters)
				require.NoError(b, err)
				_, err = m.List(b.Context(), s, manifest.Ref{}, page)
				require.NoError(b, err)
			}
		})
	}
}
