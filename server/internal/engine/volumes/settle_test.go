package volumes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
)

func TestInfosOfCSISnapshotsAreSettledByTheirOperations(t *testing.T) {
	t.Parallel()
	var infos Infos
	volume := func(name, claim string) *corev1.PersistentVolume {
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tier": name}}}
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: claim}
		return pv
	}
	for name, claim := range map[string]string{"pv-a": "a", "pv-b": "b", "pv-failed": "failed", "pv-alone": "alone"} {
		infos.Know(volume(name, claim))
	}
	add := func(resource string, labels map[string]string, raw string) {
		t.Helper()
		require.NoError(t, infos.AddCSI(resource, labels, "u", []byte(raw)))
	}
	own := map[string]string{"velero.io/backup-uid": "u"}
	snapshot := func(name, claim, content string) string {
		return `{"metadata":{"namespace":"shop","name":"` + name +
			`","annotations":{"velero.io/csi-volumesnapshot-handle":"h-` + name + `","velero.io/csi-driver-name":"d"}},
			"spec":{"source":{"persistentVolumeClaimName":"` + claim + `"}},"status":{"boundVolumeSnapshotContentName":"` + content + `"}}`
	}
	add("volumesnapshots", own, snapshot("vs-a", "a", "content-a"))
	add("volumesnapshots", own, snapshot("vs-b", "b", "content-b"))
	add("volumesnapshots", own, snapshot("vs-lost", "lost", "content-lost"))
	add("volumesnapshots", map[string]string{"velero.io/backup-uid": "another"}, snapshot("foreign", "a", "x"))
	add("volumesnapshotcontents", own,
		`{"metadata":{"name":"content-a"},"status":{"creationTime":1767319445000000000,"restoreSize":1024,"readyToUse":false}}`)
	add("volumesnapshotclasses", nil, `{"metadata":{"name":"class"}}`)
	require.ErrorContains(t, infos.AddCSI("volumesnapshots", own, "u", []byte(`[]`)), "decode the VolumeSnapshot")
	require.ErrorContains(t, infos.AddCSI("volumesnapshotcontents", own, "u", []byte(`[]`)),
		"decode the VolumeSnapshotContent")
	files := infos.CSI()
	require.Equal(t, [3]int{3, 1, 1}, [3]int{len(files.Snapshots), len(files.Contents), len(files.Classes)})
	infos.SkipOpen(func(_, name string) bool { return name != "alone" }, "no claim")

	op := func(vs, id string, phase operation.Phase) operation.Operation {
		return operation.Operation{
			Action: "velero.io/csi-volumesnapshot-backupper", ID: id, Item: framework.ResourceIdentifier{Namespace: "shop",
				Name: vs},
			Status: operation.Status{Phase: phase, Updated: time.Unix(1767319500, 7)},
		}
	}
	operations := []operation.Operation{op("vs-a", "op-a", operation.Completed), op("vs-b", "op-b", operation.Failed)}
	hub := &Hub{Roles: pluginhost.IsRoleOfVelero}
	require.Equal(t, 1, hub.CompletedCSI(operations))
	require.True(t, hub.TakesCSI(operations))
	require.False(t, hub.TakesCSI([]operation.Operation{{Action: "example.io/other"}}))
	_, found := infos.Files(operations, pluginhost.IsRoleOfVelero)
	var stored []VolumeInfo
	for _, info := range found {
		stored = append(stored, *info)
	}
	settleSnapshots(stored, operations, pluginhost.IsRoleOfVelero)
	yes, no := true, false
	ended := &metav1.Time{Time: time.Unix(1767319500, 0)}
	require.Equal(t, []VolumeInfo{
		{
			PVCNamespace: "shop", PVCName: "lost", BackupMethod: CSI, PreserveLocalSnapshot: true,
			CSI: &CSIInfo{SnapshotHandle: "h-vs-lost", Driver: "d", VSCName: "content-lost"},
		},
		{
			PVCNamespace: "shop", PVCName: "a", PVName: "pv-a", BackupMethod: CSI, PreserveLocalSnapshot: true,
			Result: Succeeded,
			CSI: &CSIInfo{SnapshotHandle: "h-vs-a", Driver: "d", VSCName: "content-a", Size: 1024, OperationID: "op-a",
				ReadyToUse: &yes},
			PV: &PVInfo{ReclaimPolicy: "Retain", Labels: map[string]string{"tier": "pv-a"}}, CompletionTimestamp: ended,
			StartTimestamp: &metav1.Time{Time: time.Unix(1767319445, 0).UTC()},
		},
		{
			PVCNamespace: "shop", PVCName: "alone", PVName: "pv-alone", Skipped: true, SkippedReason: "no claim",
			PV: &PVInfo{ReclaimPolicy: "Retain", Labels: map[string]string{"tier": "pv-alone"}},
		},
		{
			PVCNamespace: "shop", PVCName: "b", PVName: "pv-b", BackupMethod: CSI, PreserveLocalSnapshot: true, Result: Unusable,
			CSI: &CSIInfo{SnapshotHandle: "h-vs-b", Driver: "d", VSCName: "content-b", OperationID: "op-b", ReadyToUse: &no},
			PV:  &PVInfo{ReclaimPolicy: "Retain", Labels: map[string]string{"tier": "pv-b"}}, CompletionTimestamp: ended,
		},
	}, stored)
}
