package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/conformance"
	"github.com/cleat-dev/cleat/framework/manifest"
	mwv1 "github.com/cleat-dev/cleat/framework/manifestwriter/v1"
	"github.com/cleat-dev/cleat/framework/plugintest"
)

// written returns the output of a writer for items.
func written(t *testing.T, writer mwv1.ManifestWriter, items ...*mwv1.Item) plugintest.Artifacts {
	t.Helper()
	artifacts := plugintest.Artifacts{}
	require.NoError(t, writer.Write(t.Context(), &mwv1.WriteInput{
		Backup:    &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "nightly", UID: "u-b"}},
		Items:     plugintest.Items(items...),
		Artifacts: artifacts,
	}))
	return artifacts
}

func pod(name string, labels map[string]string) *mwv1.Item {
	return &mwv1.Item{Version: "v1", Resource: "pods", Kind: "Pod", Namespace: "shop", Name: name, UID: "u-" + name,
		Labels: labels}
}

func TestTableHasEachItemOnceAndSorted(t *testing.T) {
	t.Parallel()
	web := pod("web", map[string]string{"app": "web"})
	web.Owners = []mwv1.Owner{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", UID: "u-r", Controller: true}}
	web.References = []manifest.Edge{{
		Type: manifest.Reference, Strict: true, Path: "spec.volumes[0].persistentVolumeClaim.claimName",
		To: manifest.Ref{Resource: "persistentvolumeclaims", Kind: "PersistentVolumeClaim", Namespace: "shop", Name: "data"},
	}}
	web.Included = manifest.Inclusion{By: manifest.ByFilters}
	table := written(t, table{}, pod("web", nil), pod("db", map[string]string{"app": "db"}), web)[tableFile].Bytes()

	file, err := parquet.OpenFile(bytes.NewReader(table), int64(len(table)))
	require.NoError(t, err)
	name, _ := file.Lookup("backup")
	uid, _ := file.Lookup("backup_uid")
	require.Equal(t, []string{"velero/nightly", "u-b"}, []string{name, uid})

	rows, err := parquet.Read[row](bytes.NewReader(table), int64(len(table)))
	require.NoError(t, err)
	require.Len(t, rows, 2)
	require.Equal(t, "db", rows[0].Name)
	require.Equal(t, row{
		Version: "v1", Resource: "pods", Kind: "Pod", Namespace: "shop", Name: "web", UID: "u-web",
		Labels: map[string]string{"app": "web"}, Annotations: map[string]string{}, IncludedBy: "filters",
		Edges: []edge{
			{
				Type: "controller", Strict: true, Group: "apps", Kind: "ReplicaSet", Namespace: "shop", Name: "web-1", UID: "u-r",
				Path: "metadata.ownerReferences",
			},
			{
				Type: "reference", Strict: true, Resource: "persistentvolumeclaims", Kind: "PersistentVolumeClaim",
				Namespace: "shop", Name: "data",
				Path: "spec.volumes[0].persistentVolumeClaim.claimName",
			},
		},
	}, rows[1])
}

func TestTableOfManyItemsHasSeveralRowGroups(t *testing.T) {
	t.Parallel()
	items := make([]*mwv1.Item, 2*rowsAtOnce+1)
	for i := range items {
		items[i] = pod(fmt.Sprintf("pod-%06d", len(items)-i), map[string]string{"app": "web"})
	}
	table := written(t, table{}, items...)[tableFile].Bytes()
	file, err := parquet.OpenFile(bytes.NewReader(table), int64(len(table)))
	require.NoError(t, err)
	require.Len(t, file.RowGroups(), 3)
	require.EqualValues(t, len(items), file.NumRows())
}

func TestTableOfEmptyBackupHasItsColumns(t *testing.T) {
	t.Parallel()
	table := written(t, table{})[tableFile].Bytes()
	file, err := parquet.OpenFile(bytes.NewReader(table), int64(len(table)))
	require.NoError(t, err)
	require.Zero(t, file.NumRows())
	require.Len(t, file.Schema().Fields(), 11)
}

func TestInventoryHasEachImageOnce(t *testing.T) {
	t.Parallel()
	with := func(item *mwv1.Item, object string) *mwv1.Item {
		item.Object = []byte(object)
		return item
	}
	job := &mwv1.Item{Group: "batch", Version: "v1", Resource: "cronjobs", Kind: "CronJob", Namespace: "shop",
		Name: "report"}
	inventory := written(t, inventory{},
		with(pod("web", nil), `{"spec":{"containers":[{"name":"old","image":"old"}]}}`),
		with(pod("web", nil), `{
			"spec":{"initContainers":[{"name":"init","image":"tools:1"}],"containers":[{"name":"web","image":"web:2"},{"name":"side","image":"tools:1"}]},
			"status":{"containerStatuses":[{"name":"web","imageID":"registry.example.io/web@sha256:1"}]}}`),
		with(pod("broken", nil), `{"spec":{"containers":"none"}}`),
		with(job, `{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"a","image":"tools:1"}]}}}}}}`),
		pod("unknown", nil),
	)[inventoryFile].String()
	require.Equal(t, strings.Join([]string{
		`{"image":"tools:1","usedBy":["cronjobs.batch shop/report","pods shop/web"],"count":2}`,
		`{"image":"web:2","digests":["registry.example.io/web@sha256:1"],"usedBy":["pods shop/web"],"count":1}`, "",
	}, "\n"), inventory)
}

func TestInventoryNamesTheFirstUsersAndCountsAll(t *testing.T) {
	t.Parallel()
	items := make([]*mwv1.Item, maxUsers+5)
	for i := range items {
		items[i] = pod(fmt.Sprintf("pod-%02d", i), nil)
		items[i].Object = []byte(`{"spec":{"containers":[{"name":"c","image":"web"}]}}`)
	}
	inventory := written(t, inventory{}, items...)[inventoryFile].String()
	require.Contains(t, inventory, `"count":25`)
	require.Equal(t, maxUsers, strings.Count(inventory, "pods shop/"))
}

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Test(t, conformance.Binary(plugintest.Build(t, ".")))
}
