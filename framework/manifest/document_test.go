package manifest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/sets"
)

// add adds an item of a few words to a manifest.
func add(t *testing.T, m *Manifest, group, resource, kind, namespace, name, uid string, change ...func(*Item)) *Item {
	t.Helper()
	item := &Item{APIGroup: group, APIVersion: "v1", Resource: resource, ItemKind: kind, Namespace: namespace, Name: name,
		UID: uid}
	for _, c := range change {
		c(item)
	}
	added, err := m.Add(item)
	require.NoError(t, err)
	require.True(t, added)
	return item
}

func TestManifestFindsItems(t *testing.T) {
	t.Parallel()
	m := New()
	web := add(t, m, "apps", "deployments", "Deployment", "shop", "web", "u1")
	node := add(t, m, "", "nodes", "Node", "", "n1", "")
	definition := add(t, m, "apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", "",
		"backups.velero.io", "u3")
	backup := add(t, m, "velero.io", "backups", "Backup", "velero", "nightly", "u4",
		func(i *Item) { i.OwnerUIDs = []string{"u1", "u9"} })

	require.Equal(t, web, m.Index["u1"])
	require.Equal(t, web, m.Kinds["deployments.apps/v1"]["shop"]["web"])
	require.Equal(t, node, m.Kinds["nodes/v1"][""]["n1"])
	require.Equal(t, sets.New("deployments.apps/shop/v1/web.json", "nodes/cluster/v1/n1.json",
		"backups.velero.io/velero/v1/nightly.json",
		"customresourcedefinitions.apiextensions.k8s.io/cluster/v1/backups.velero.io.json"), m.Set())
	require.Equal(t, []*Item{node, definition, web, backup}, slices.Collect(m.Items()))

	for _, ref := range []Ref{
		{UID: "u1"}, {Group: "apps", Resource: "deployments", Namespace: "shop", Name: "web"},
		{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}, web.Ref(),
	} {
		require.Equal(t, web, m.Find(ref))
	}
	for _, ref := range []Ref{{}, {UID: "u9", Kind: "Node", Name: "n1"},
		{Group: "apps", Resource: "deployments", Name: "web"}, {Resource: "deployments", Namespace: "shop", Name: "web"}} {
		require.Nil(t, m.Find(ref))
	}

	require.Equal(t, definition, backup.Kind())
	require.Nil(t, web.Kind())
	require.Equal(t, []*Item{web}, backup.Owners()) // u9 is not there
	require.Equal(t, []*Item{backup}, web.Children())
	require.Empty(t, node.Children())
	require.Empty(t, (&Item{UID: "u1", OwnerUIDs: []string{"u1"}}).Owners())
}

func TestItemIsInAManifestOnce(t *testing.T) {
	t.Parallel()
	m := New()
	first := add(t, m, "", "pods", "Pod", "shop", "web", "u1")
	added, err := m.Add(&Item{APIVersion: "v1", Resource: "pods", ItemKind: "Pod", Namespace: "shop", Name: "web",
		UID: "u2"})
	require.False(t, added)
	require.Equal(t, ItemAlreadyExists, err)
	require.Equal(t, first, m.Kinds["pods/v1"]["shop"]["web"])
	require.Nil(t, m.Index["u2"])

	added, err = m.Add(&Item{APIVersion: "v1", Resource: "pods", ItemKind: "Pod"})
	require.False(t, added)
	require.ErrorContains(t, err, "the name of item")
}

func TestFirstOfTwoItemsWithOneUIDKeepsIt(t *testing.T) {
	t.Parallel()
	m := New()
	first := add(t, m, "", "pods", "Pod", "shop", "a", "u1")
	second := add(t, m, "", "pods", "Pod", "shop", "b", "u1")
	child := add(t, m, "", "pods", "Pod", "shop", "c", "u2", func(i *Item) { i.OwnerUIDs = []string{"u1"} })
	require.Equal(t, []*Item{first}, child.Owners())
	require.Equal(t, []*Item{child}, first.Children())
	require.Empty(t, second.Children())
}
