package volume

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
)

func list(t *testing.T, infos, snapshots, podVolumes string) []*Volume {
	t.Helper()
	var i []volumes.VolumeInfo
	var s []volumes.Snapshot
	var p []PodVolume
	require.NoError(t, json.Unmarshal([]byte(infos), &i))
	require.NoError(t, json.Unmarshal([]byte(snapshots), &s))
	require.NoError(t, json.Unmarshal([]byte(podVolumes), &p))
	return List(i, s, p)
}

const (
	oldSnapshots  = `[{"spec":{"location":"aws","persistentVolumeName":"pv-1"},"status":{"providerSnapshotID":"snap-1","phase":"Completed"}},{"spec":{"persistentVolumeName":"pv-2"},"status":{"phase":"Failed"}}]`
	oldPodVolumes = `[{"metadata":{"annotations":{"velero.io/pvc-name":"data"}},"spec":{"pod":{"namespace":"shop","name":"db"},"volume":"v","uploaderType":"kopia"},"status":{"snapshotID":"k1"}},
		{"spec":{"pod":{"namespace":"shop","name":"db"},"volume":"cache"},"status":{"snapshotID":"r1"}},{"spec":{"pod":{"namespace":"shop","name":"db"},"volume":"failed"},"status":{}}]`
)

func TestVolumeinfoSaysWhereTheDataIs(t *testing.T) {
	t.Parallel()
	found := list(t, `[
		{"pvcName":"a","pvcNamespace":"shop","pvName":"pv-a","backupMethod":"NativeSnapshot","nativeSnapshotInfo":{"snapshotHandle":"snap-a"}},
		{"pvcName":"b","pvcNamespace":"shop","pvName":"pv-b","backupMethod":"CSISnapshot","csiSnapshotInfo":{"snapshotHandle":"h","driver":"ebs"}},
		{"pvcName":"c","pvcNamespace":"shop","pvName":"pv-c","backupMethod":"CSISnapshot","snapshotDataMoved":true,"csiSnapshotInfo":{},"snapshotDataMovementInfo":{"snapshotHandle":"m"}},
		{"pvName":"","backupMethod":"PodVolumeBackup","pvbInfo":{"snapshotHandle":"k","uploaderType":"kopia","volumeName":"cache","podName":"db","podNamespace":"shop"}},
		{"pvName":"pv-d","skipped":true,"skippedReason":"policy"},{"pvName":"pv-e"},
		{"pvName":"pv-f","backupMethod":"Teleport"}]`, oldSnapshots, oldPodVolumes)
	var told [][2]string
	for _, v := range found {
		told = append(told, [2]string{v.String(), v.Where})
	}
	require.Equal(t, [][2]string{
		{"persistent volume claim shop/a", "snapshot snap-a"},
		{"persistent volume claim shop/b", "snapshot h of CSI driver ebs"},
		{"persistent volume claim shop/c", "snapshot m of data mover velero"},
		{"volume cache of pod shop/db", "file system backup k of kopia"},
		{"persistent volume pv-f", "what the method Teleport has made"},
	}, told)
}

func TestBackupsWithoutVolumeinfoHaveLists(t *testing.T) {
	t.Parallel()
	found := list(t, `null`, oldSnapshots, oldPodVolumes)
	require.Equal(t, []*Volume{
		{Method: volumes.Native, PV: "pv-1", Snapshot: found[0].Snapshot,
			Where: "snapshot snap-1 of volume snapshot location aws"},
		{Method: volumes.PodVolume, PodNamespace: "shop", Pod: "db", Name: "v", ClaimNamespace: "shop", Claim: "data",
			Where: "file system backup k1 of kopia", SnapshotID: "k1", Restorer: framework.RolePodVolumeRestores},
		{Method: volumes.PodVolume, PodNamespace: "shop", Pod: "db", Name: "cache", Where: "file system backup r1 of restic",
			SnapshotID: "r1", Restorer: framework.RolePodVolumeRestores},
	}, found)
	x := NewIndex(found)
	require.Len(t, x.OfPod("shop", "db"), 2)
	require.Equal(t, found[1:2], x.OfClaim("shop", "data", "pv-1"))
	require.Equal(t, found[:1], x.OfClaim("shop", "other", "pv-1"), "by its volume")
	require.Equal(t, found[:1], x.OfPV("pv-1"))
	require.Empty(t, Index{}.OfPV("pv-1"))
	require.Empty(t, list(t, `[]`, `[]`, `null`))
}

// TestPodVolumesSayWhatBecameOfThem has all that a backup may record about a volume of a pod.
func TestPodVolumesSayWhatBecameOfThem(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		info          string
		restorer      framework.Role
		failed, empty bool
		ofVelero      bool
	}{
		"stored": {info: `"pvbInfo":{"snapshotHandle":"s","uploaderType":"restic"}`,
			restorer: framework.RolePodVolumeRestores},
		"unnamed": {info: `"pvbInfo":{"snapshotHandle":"s"}`, restorer: framework.RolePodVolumeRestores},
		"kopia": {info: `"pvbInfo":{"snapshotHandle":"s","uploaderType":"kopia"}`,
			restorer: framework.RolePodVolumeRestores},
		"of an engine without data mover": {info: `"pvbInfo":{"snapshotHandle":"s","uploaderType":"tape"}`, ofVelero: true},
		"empty": {info: `"result":"succeeded","pvbInfo":{"uploaderType":"restic"}`, restorer: framework.RolePodVolumeRestores,
			empty: true},
		"failed": {info: `"result":"failed","pvbInfo":{"uploaderType":"restic"}`, failed: true},
	} {
		v := list(t, `[{"backupMethod":"PodVolumeBackup",`+row.info+`}]`, "null", "null")[0]
		require.Equal(t, []any{row.restorer, row.failed, row.empty, row.ofVelero},
			[]any{v.Restorer, v.Failed, v.Empty, v.OfVelero}, name)
	}
}
