package csi

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

func TestClassOfASnapshotIsChosen(t *testing.T) {
	t.Parallel()
	const disks = "Disks.example.com"
	named := func(name, driver string, marks ...string) class {
		c := class{metav1.ObjectMeta{Name: name, Labels: map[string]string{}, Annotations: map[string]string{}}, driver}
		for _, mark := range marks {
			if mark == "label" {
				c.Labels[velerov1.VolumeSnapshotClassKey] = "true"
			} else {
				c.Annotations[singly.byDefault] = "true"
			}
		}
		return c
	}
	a, b, foreign := named("a", disks), named("b", disks), named("c", "other")
	labelled, byDefault := named("labelled", disks, "label"), named("default", disks, "annotation")
	forDriver := velerov1.VolumeSnapshotClassKey + "_disks.example.com"
	for name, tt := range map[string]struct {
		classes       []class
		claim, backup string
		want, err     string
	}{
		"annotation of the claim":  {[]class{a, b, labelled}, "B", "a", "b", ""},
		"annotation of the backup": {[]class{a, b, labelled}, "", "a", "a", ""},
		"label": {[]class{a, byDefault, labelled, foreign}, "", "", "labelled",
			""},
		"default class": {[]class{a, byDefault, foreign}, "", "", "default", ""},
		"the only one":  {[]class{foreign, a}, "", "", "a", ""},
		"several": {[]class{a, b}, "", "", "",
			"none of the 2 VolumeSnapshotClasses for driver Disks.example.com is chosen; give one of them the label " +
				velerov1.VolumeSnapshotClassKey + "=true or the annotation " + singly.byDefault + "=true"},
		"none": {[]class{foreign}, "", "", "",
			"there is no VolumeSnapshotClass for driver Disks.example.com; create one, or leave the volume out by a volume " +
				"policy or snapshotVolumes=false"},
		"of the claim is unknown": {[]class{a}, "x", "", "",
			"annotation velero.io/csi-volumesnapshot-class of the claim names VolumeSnapshotClass x, which does not exist; " +
				"want one for driver Disks.example.com"},
		"of the backup is foreign": {[]class{a, foreign}, "", "c", "", "annotation " + forDriver +
			" of the backup names VolumeSnapshotClass c, which is for driver other; want one for driver Disks.example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backup := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{forDriver: tt.backup}}}
			got, err := singly.choose(disks, map[string]string{velerov1.VolumeSnapshotClassKey: tt.claim}, backup, tt.classes)
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
