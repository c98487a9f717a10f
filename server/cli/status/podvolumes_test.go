package status

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/cli/status/statustest"
)

func TestPodVolumesSayWhatTheyWaitFor(t *testing.T) {
	t.Parallel()
	loads := make([]velerov1.PodVolumeBackup, 3)
	for i, status := range []velerov1.LoadStatus{
		{Message: "2 loads are being prepared"},
		{Phase: velerov1.LoadPhaseFailed, Message: "the volume is gone"},
		{Phase: velerov1.LoadPhaseCompleted, Progress: velerov1.LoadProgress{TotalBytes: 7, BytesDone: 7},
			Message: "1 FIFOs\n2 links"},
	} {
		loads[i].Spec.Volume, loads[i].Status.LoadStatus = "data", status
	}
	var texts []string
	for _, volume := range PodVolumesOfBackup(loads) {
		texts = append(texts, volume.text())
	}
	require.Equal(t, []string{"data (waits: 2 loads are being prepared)", "data (the volume is gone)",
		"data (size: 7; 1 FIFOs; 2 links)"},
		texts)
}

// TestMovementsSayWhatTheyWaitFor has DataUploads and DataDownloads in each phase. Those that have moved their data are
// left out.
func TestMovementsSayWhatTheyWaitFor(t *testing.T) {
	t.Parallel()
	statuses := []velerov1.LoadStatus{
		{Message: "2 loads are being prepared"},
		{Phase: velerov1.LoadPhaseAccepted, Message: "the snapshot is not ready"},
		{Phase: velerov1.LoadPhaseAccepted},
		{Phase: velerov1.LoadPhasePrepared},
		{Phase: velerov1.LoadPhaseInProgress, Progress: velerov1.LoadProgress{TotalBytes: 8, BytesDone: 2},
			Message: "attempt 1 of 3 has ended"},
		{Phase: velerov1.LoadPhaseFailed, Message: "the volume is gone"},
		{Phase: velerov1.LoadPhaseCompleted},
	}
	uploads, downloads := make([]velerov2alpha1.DataUpload, len(statuses)), make([]velerov2alpha1.DataDownload,
		len(statuses))
	for i, status := range statuses {
		uploads[i].Spec.SourceNamespace, uploads[i].Spec.SourcePVC, uploads[i].Status.LoadStatus = "shop", fmt.Sprintf("u%d",
			i), status
		downloads[i].Spec.TargetVolume, downloads[i].Status.LoadStatus = velerov2alpha1.TargetVolumeSpec{Namespace: "copy",
			PVC: fmt.Sprintf("d%d", i)}, status
	}
	b, r := &velerov1.Backup{}, &velerov1.Restore{}
	b.Name, r.Name = "nightly", "again"
	backup, restore := NewBackupDescription(b), &RestoreDescription{Restore: r, Movements: MovementsOfRestore(downloads)}
	backup.Movements = MovementsOfBackup(uploads)
	statustest.Golden(t, "describe_backup_movements_few.txt", backup.Print)
	backup.Details, restore.Details = true, true
	statustest.Golden(t, "describe_backup_movements.txt", backup.Print)
	statustest.Golden(t, "describe_backup_movements.json", document(backup))
	statustest.Golden(t, "describe_restore_movements.txt", restore.Print)
}
