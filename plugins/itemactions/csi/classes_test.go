package csi

import (
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

func TestClassOfASnapshotIsChosen(t *testing.T) {
	t.Parallel()
	const disks = "Disks.example.com"
	class := func(name, driver string, marks ...string) snapshotv1.VolumeSnapshotClass {
		c := snapshotv1.VolumeSnapshotClass{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{},
			Annotations: map[string]string{}}, Driver: driver}
		for _, mark := range marks {
			if mark == "label" {
				c.Labels[velerov1.VolumeSnapshotClassKey] = "true"
			} else {
				c.Annotations[defaultClass] = "true"
			}
		}
		return c
	}
	a, b, foreign := class("a", disks), class("b", disks), class("c", "other")
	labelled, byDefault := class("labelled", disks, "label"), class("default", disks, "annotation")
	forDriver := velerov1.VolumeSnapshotClassKey + "_disks.example.com"
	for name, tt := range map[string]struct {
		classes       []snapshotv1.VolumeSnapshotClass
		claim, backup string
		want, err     string
	}{
		"annotation of the claim":  {[]snapshotv1.VolumeSnapshotClass{a, b, labelled}, "B", "a", "b", ""},
		"annotation of the backup": {[]snapshotv1.VolumeSnapshotClass{a, b, labelled}, "", "a", "a", ""},
		"label": {[]snapshotv1.VolumeSnapshotClass{a, byDefault, labelled, foreign}, "", "", "labelled",
			""},
		"default class": {[]snapshotv1.VolumeSnapshotClass{a, byDefault, foreign}, "", "", "default", ""},
		"the only one":  {[]snapshotv1.VolumeSnapshotClass{foreign, a}, "", "", "a", ""},
		"several": {[]snapshotv1.VolumeSnapshotClass{a, b}, "", "", "",
			"none of the 2 VolumeSnapshotClasses for driver Disks.example.com is chosen; give one of them the label " +
				velerov1.VolumeSnapshotClassKey + "=true or the annotation " + defaultClass + "=true"},
		"none": {[]snapshotv1.VolumeSnapshotClass{foreign}, "", "", "",
			"there is no VolumeSnapshotClass for driver Disks.example.com; create one, or leave the volume out by a volume " +
				"policy or snapshotVolumes=false"},
		"of the claim is unknown": {[]snapshotv1.VolumeSnapshotClass{a}, "x", "", "",
			"annotation velero.io/csi-volumesnapshot-class of the claim names VolumeSnapshotClass x, which does not exist; " +
				"want one for driver Disks.example.com"},
		"of the backup is foreign": {[]snapshotv1.VolumeSnapshotClass{a, foreign}, "", "c", "", "annotation " + forDriver +
			" of the backup names VolumeSnapshotClass c, which is for driver other; want one for driver Disks.example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backup := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{forDriver: tt.backup}}}
			got, err := chooseClass(disks, map[string]string{velerov1.VolumeSnapshotClassKey: tt.claim}, backup, tt.classes)
			require.Equal(t, tt.want, got)
			if tt.err == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, tt.err)
			}
		})
	}
}

func TestNamesOfSnapshotsFitIntoLabels(t *testing.T) {
	t.Parallel()
	require.Regexp(t, `^velero-data-[a-z0-9]{5}$`, nameFor("data"))
	long := nameFor("a-claim-with-a-name-that-is-longer-than-the-value-of-a-label-may-be-in-kubernetes")
	require.Len(t, long, 63)
	require.NotEqual(t, nameFor("data"), nameFor("data"))
}

func TestOperationsNameTheirSnapshots(t *testing.T) {
	t.Parallel()
	namespace, name, started, err := parse("shop/velero-data-x/2026-01-02T03:04:05+01:00")
	require.NoError(t, err)
	require.Equal(t, []any{"shop", "velero-data-x", int64(1767319445)}, []any{namespace, name, started.Unix()})
	for _, id := range []string{"", "shop/x", "shop/x/yesterday", "a/b/c/2026-01-02T03:04:05Z"} {
		_, _, _, err := parse(id)
		require.ErrorContains(t, err, "is not the id of an operation, want namespace/name/time of a VolumeSnapshot")
	}
}
