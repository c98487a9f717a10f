package status

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/status/statustest"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
)

func TestRestoreTable(t *testing.T) {
	t.Parallel()
	statustest.Golden(t, "restores.txt", RestoreTable([]velerov1.Restore{
		{
			ObjectMeta: metav1.ObjectMeta{Name: "back", CreationTimestamp: *statustest.At(0)},
			Spec:       velerov1.RestoreSpec{BackupName: "nightly"},
			Status: velerov1.RestoreStatus{Phase: velerov1.RestorePhaseCompleted, StartTimestamp: statustest.At(time.Second),
				CompletionTimestamp: statustest.At(time.Minute), Warnings: 4},
		},
		{ObjectMeta: metav1.ObjectMeta{Name: "fresh", CreationTimestamp: *statustest.At(0)},
			Spec: velerov1.RestoreSpec{BackupName: "nightly"}},
	}, statustest.Noon()).Print)
}

func TestDescribeRestore(t *testing.T) {
	t.Parallel()
	doc := &RestoreDescription{
		Restore: &velerov1.Restore{
			ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "back"},
			Spec: velerov1.RestoreSpec{
				BackupName: "nightly", NamespaceMapping: map[string]string{"shop": "shop-copy"},
				ExcludedResources: []string{"nodes", "events"}, ExistingResourcePolicy: velerov1.PolicyTypeUpdate,
				PreserveNodePorts: new(true),
			},
			Status: velerov1.RestoreStatus{
				Phase: velerov1.RestorePhaseFailed, FailureReason: "disk full", StartTimestamp: statustest.At(0),
				CompletionTimestamp: statustest.At(time.Minute), Errors: 1,
				Progress: &velerov1.RestoreProgress{TotalItems: 3, ItemsRestored: 2},
			},
		},
		Results:   &results.Results{Errors: results.Result{Velero: []string{"disk full"}}},
		Resources: map[string][]string{"v1/ConfigMap": {"shop-copy/a(created)", "shop-copy/b(skipped)"}},
	}
	statustest.Golden(t, "describe_restore.txt", doc.Print)
	doc.Restore = &velerov1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "back", DeletionTimestamp: statustest.At(0)},
		Spec: velerov1.RestoreSpec{
			ScheduleName: "nightly", ResourceModifier: &velerov1.TypedLocalObjectReference{Kind: "configmap", Name: "changes"},
			RestoreStatus:  &velerov1.RestoreStatusSpec{IncludedResources: []string{"workflows"}},
			UploaderConfig: &velerov1.UploaderConfigForRestore{WriteSparseFiles: new(true), ParallelFilesDownload: 4},
		},
	}
	doc.Results, doc.Resources = nil, nil
	doc.Volumes = []volumes.RestoreVolumeInfo{
		{PVName: "pv-1", RestoreMethod: volumes.Native, Native: &volumes.NativeInfo{SnapshotHandle: "snap-1",
			VolumeType: "ssd", VolumeAZ: "zone-1", IOPS: "300"}},
		{PVCNamespace: "shop", PVCName: "data", RestoreMethod: volumes.CSI,
			CSI: &volumes.CSIInfo{SnapshotHandle: "h", Driver: "d", VSCName: "content"}},
		{PVCNamespace: "shop", PVCName: "moved", RestoreMethod: volumes.CSI, SnapshotDataMoved: true,
			DataMovement: &volumes.MovementInfo{UploaderType: "kopia", OperationID: "dd"}},
	}
	statustest.Golden(t, "describe_restore_volumes_names.txt", doc.Print)
	doc.Details = true
	statustest.Golden(t, "describe_restore_volumes.txt", doc.Print)
}
