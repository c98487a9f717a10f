package volumes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
)

func TestInfosOfMovedDataAreSettledByTheirUploads(t *testing.T) {
	t.Parallel()
	infos := Infos{DataMover: velerov1.ResticDataMover}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-a"}}
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: "a"}
	infos.Know(pv)
	updated := time.Unix(1767319500, 0)
	op := func(claim, id string, phase operation.Phase) operation.Operation {
		return operation.Operation{Action: "velero.io/csi-pvc-backupper", ID: id,
			Item: framework.ResourceIdentifier{Namespace: "shop",
				Name: claim}, Status: operation.Status{Phase: phase, Updated: updated}}
	}
	operations := []operation.Operation{op("a", "du-a", operation.Completed), op("lost", "du-lost", operation.Failed),
		{Action: "example.io/other", ID: "x"}}
	require.True(t, (&Hub{Roles: pluginhost.IsRoleOfVelero}).TakesCSI(operations[:1]))
	_, found := infos.Files(operations, pluginhost.IsRoleOfVelero)
	var stored []VolumeInfo
	for _, info := range found {
		stored = append(stored, *info)
	}
	ended, started := metav1.Unix(1767319490, 0), metav1.Unix(1767319480, 0)
	upload := &velerov2alpha1.DataUpload{Spec: velerov2alpha1.DataUploadSpec{
		DataMover: "example.io/mover", CSISnapshot: &velerov2alpha1.CSISnapshotSpec{VolumeSnapshot: "vs", Driver: "d"},
	}}
	upload.Status.Phase, upload.Status.SnapshotID, upload.Status.IncrementalBytes = velerov1.LoadPhaseCompleted, "s", 3
	upload.Status.Progress.TotalBytes, upload.Status.StartTimestamp, upload.Status.CompletionTimestamp = 7, &started,
		&ended
	settleMovements(stored, operations, map[string]*velerov2alpha1.DataUpload{"du-a": upload}, pluginhost.IsRoleOfVelero)
	settleSnapshots(stored, operations, pluginhost.IsRoleOfVelero) // of which there are none
	gone := CSIInfo{SnapshotHandle: "unknown", VSCName: "unknown", OperationID: "unknown"}
	of := gone
	of.Driver = "d"
	require.Equal(t, []VolumeInfo{
		{
			PVCNamespace: "shop", PVCName: "lost", BackupMethod: CSI, SnapshotDataMoved: true, Result: Unusable, CSI: &gone,
			CompletionTimestamp: &metav1.Time{Time: updated},
			DataMovement:        &MovementInfo{DataMover: "cleat.dev/restic", UploaderType: "restic", OperationID: "du-lost"},
		},
		{
			PVCNamespace: "shop", PVCName: "a", PVName: "pv-a", BackupMethod: CSI, SnapshotDataMoved: true, Result: Succeeded,
			CSI: &of, PV: &PVInfo{},
			StartTimestamp: &started, CompletionTimestamp: &ended,
			DataMovement: &MovementInfo{
				DataMover: "example.io/mover", RetainedSnapshot: "vs", SnapshotHandle: "s", OperationID: "du-a", Size: 7,
				IncrementalSize: 3, Phase: velerov1.LoadPhaseCompleted,
			},
		},
	}, stored)
}
