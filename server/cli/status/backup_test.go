package status

import (
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/status/statustest"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

func backups() []velerov1.Backup {
	return []velerov1.Backup{
		{
			ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "nightly-20260301000000",
				Labels: map[string]string{"team": "a", "velero.io/schedule-name": "nightly"}},
			Spec: velerov1.BackupSpec{StorageLocation: "default"},
			Status: velerov1.BackupStatus{Phase: velerov1.BackupPhaseCompleted,
				StartTimestamp: statustest.At(-60 * time.Hour), Expiration: statustest.At(-time.Hour)},
		},
		{
			ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "nightly-20260302000000",
				Labels: map[string]string{"team": "b"}},
			Spec: velerov1.BackupSpec{StorageLocation: "default",
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}}},
			Status: velerov1.BackupStatus{Phase: velerov1.BackupPhasePartiallyFailed, Errors: 2, Warnings: 1,
				StartTimestamp: statustest.At(-36 * time.Hour), Expiration: statustest.At(29 * 24 * time.Hour)},
		},
		{
			ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "waiting"},
			Status:     velerov1.BackupStatus{Phase: velerov1.BackupPhaseQueued, QueuePosition: 3},
		},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "fresh"}},
		{
			ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "going", DeletionTimestamp: statustest.At(0)},
			Spec: velerov1.BackupSpec{StorageLocation: "far", OrLabelSelectors: []*metav1.LabelSelector{
				{MatchLabels: map[string]string{"a": "b"}}, {MatchLabels: map[string]string{"c": "d"}},
			}},
			Status: velerov1.BackupStatus{Phase: velerov1.BackupPhaseCompleted, StartTimestamp: statustest.At(-time.Minute),
				Expiration: statustest.At(30 * time.Hour)},
		},
	}
}

func TestBackupTable(t *testing.T) {
	t.Parallel()
	list := backups()
	SortBackups(list)
	statustest.Golden(t, "backups.txt", BackupTable(list, statustest.Noon()).Print)
}

func TestBackupTableWithLabels(t *testing.T) {
	t.Parallel()
	list := backups()[:2]
	table := BackupTable(list, statustest.Noon())
	table.AddLabels([]map[string]string{list[0].Labels, list[1].Labels}, []string{"team", "velero.io/schedule-name"}, true)
	statustest.Golden(t, "backups_labels.txt", table.Print)
}

// The last verification has not looked for what the one before has found.
func TestDescribeDamagedBackup(t *testing.T) {
	t.Parallel()
	b := backups()[1]
	v := velerov1.Verification{}
	v.Add(&velerov1.VerificationResult{Depth: velerov1.VerifyFiles, Outcome: velerov1.VerifiedDamaged,
		Ended: *statustest.At(-5 * time.Hour), Signature: velerov1.SignatureValid, Key: "sha256:k",
		Findings: []velerov1.VerificationFinding{{Kind: velerov1.FindingChanged, Of: "item configmaps shop/a",
			Message: "the item was changed"}}, Others: 3})
	v.Add(&velerov1.VerificationResult{Depth: velerov1.VerifyQuick, Outcome: velerov1.VerifiedIntact,
		Ended: *statustest.At(-time.Hour)})
	text, err := json.Marshal(v)
	require.NoError(t, err)
	b.Annotations = map[string]string{velerov1.VerificationAnnotation: string(text)}
	require.Equal(t, "Damaged, 5h ago", Verified(&b, statustest.Noon()))
	statustest.Golden(t, "describe_backup_damaged.txt", (&BackupDescription{Backup: &b}).Print)
}

func TestDescribeBackup(t *testing.T) {
	t.Parallel()
	b := backups()[1]
	b.Annotations = map[string]string{"velero.io/source-cluster-k8s-gitversion": "v1.36.3"}
	b.Spec.IncludedNamespaces = []string{"shop", "billing"}
	b.Spec.ExcludedNamespaceScopedResources = []string{"events"}
	b.Spec.TTL.Duration = 720 * time.Hour
	b.Spec.OrderedResources = map[string]string{"pods": "shop/db,shop/web"}
	b.Status.FormatVersion = "1.2.0"
	b.Status.CompletionTimestamp = statustest.At(-35 * time.Hour)
	b.Status.Progress = &velerov1.BackupProgress{TotalItems: 12, ItemsBackedUp: 10}
	doc := &BackupDescription{
		Backup: &b,
		Results: &results.Results{
			Errors: results.Result{
				Velero:     []string{"no namespace matches"},
				Namespaces: map[string][]string{"shop": {" resource: /pods name: /web message: /back up item error: /boom"}},
			},
			Warnings: results.Result{Cluster: []string{"group x could not be discovered"}},
		},
		Resources: map[string][]string{"v1/Pod": {"shop/db", "shop/web"}, "v1/Namespace": {"shop"}},
		Deletions: []DeletionAttempt{{Time: layout.FormatTime(statustest.At(0)), Phase: "Processed",
			Errors: []string{"backup is still in progress"}}},
	}
	statustest.Golden(t, "describe_backup.txt", doc.Print)
	statustest.Golden(t, "describe_backup.json", document(doc))
}

// TestDescribeBackupWithEverything has what a spec and a status can have that the other descriptions have not.
func TestDescribeBackupWithEverything(t *testing.T) {
	t.Parallel()
	b := backups()[4]
	b.DeletionTimestamp = nil
	b.Annotations = map[string]string{velerov1.GlobalVolumePoliciesAnnotation: "for-all"}
	b.Spec.ResourcePolicy = &velerov1.TypedLocalObjectReference{Kind: "configmap", Name: "policies"}
	b.Spec.IncludedResources, b.Spec.IncludeClusterResources = []string{"pods"}, new(false)
	b.Spec.DefaultVolumesToFsBackup, b.Spec.SnapshotVolumes, b.Spec.SnapshotMoveData, b.Spec.DataMover = new(true),
		new(true), new(false), "example.io/mover"
	b.Spec.UploaderConfig = &velerov1.UploaderConfigForBackup{ParallelFilesUpload: 8}
	b.Spec.Hooks.Resources = []velerov1.BackupResourceHookSpec{{
		Name: "freeze", IncludedNamespaces: []string{"shop"}, LabelSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"app": "db"},
		},
		PreHooks: []velerov1.BackupResourceHook{{Exec: &velerov1.ExecHook{
			Container: "db", Command: []string{"fsfreeze", "-f"}, OnError: velerov1.HookErrorModeFail, Timeout: metav1.Duration{
				Duration: time.Minute,
			},
		}}},
	}}
	b.Status = velerov1.BackupStatus{
		Phase: velerov1.BackupPhaseInProgress, StartTimestamp: statustest.At(0), Progress: &velerov1.BackupProgress{
			TotalItems: 9, ItemsBackedUp: 4,
		},
		Warnings: 2, HookStatus: &velerov1.HookStatus{HooksAttempted: 3, HooksFailed: 1}, CSIVolumeSnapshotsAttempted: 2,
		CSIVolumeSnapshotsCompleted: 1,
	}
	doc := NewBackupDescription(&b)
	pod := velerov1.ObjectReference{Namespace: "shop", Name: "db"}
	doc.PodVolumes = PodVolumesOfBackup([]velerov1.PodVolumeBackup{
		{Spec: velerov1.PodVolumeBackupSpec{Pod: pod, Volume: "wal", UploaderType: "kopia"},
			Status: velerov1.PodVolumeBackupStatus{
				LoadStatus: velerov1.LoadStatus{Phase: velerov1.LoadPhaseCompleted, Progress: velerov1.LoadProgress{TotalBytes: 90,
					BytesDone: 90}}, IncrementalBytes: 9,
			}},
		{Spec: velerov1.PodVolumeBackupSpec{Pod: pod, Volume: "data", UploaderType: "kopia"},
			Status: velerov1.PodVolumeBackupStatus{
				LoadStatus: velerov1.LoadStatus{Phase: velerov1.LoadPhaseCompleted, Progress: velerov1.LoadProgress{TotalBytes: 80,
					BytesDone: 80}},
			}},
		{Spec: velerov1.PodVolumeBackupSpec{Pod: pod, Volume: "cache", UploaderType: "kopia"},
			Status: velerov1.PodVolumeBackupStatus{
				LoadStatus: velerov1.LoadStatus{Phase: velerov1.LoadPhaseInProgress, Progress: velerov1.LoadProgress{TotalBytes: 80,
					BytesDone: 20}},
			}},
		{Spec: velerov1.PodVolumeBackupSpec{Pod: pod, Volume: "new", UploaderType: "kopia"}},
	})
	doc.AddDeletions([]velerov1.DeleteBackupRequest{{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: *statustest.At(0)}}})
	statustest.Golden(t, "describe_backup_everything.txt", doc.Print)
	statustest.Golden(t, "describe_backup_everything.json", document(doc))
	doc.Details = true
	statustest.Golden(t, "describe_backup_everything_details.txt", doc.Print)
	statustest.Golden(t, "describe_backup_everything_details.json", document(doc))
}

// document prints the JSON form of a description.
func document(doc interface{ Document() any }) func(io.Writer) error {
	return func(w io.Writer) error { return layout.PrintJSON(w, doc.Document()) }
}

func TestDescribeBackupThatDidNotStart(t *testing.T) {
	t.Parallel()
	waiting := backups()[2]
	statustest.Golden(t, "describe_backup_queued.txt", NewBackupDescription(&waiting).Print)
	waiting.Annotations = map[string]string{velerov1.QueueWaitAnnotation: `{"reason":"NamespaceOverlap","message":"shares namespace shop with nightly, which runs",` +
		`"blockers":["nightly"],"namespaces":["shop"],"since":"2026-03-04T11:55:00Z"}`}
	statustest.Golden(t, "describe_backup_queued_why.txt", NewBackupDescription(&waiting).Print)
	waiting.Annotations[velerov1.QueueWaitAnnotation] = "soon"
	statustest.Golden(t, "describe_backup_queued_unreadable.txt", NewBackupDescription(&waiting).Print)
	invalid := backups()[3]
	invalid.Status.Phase = velerov1.BackupPhaseFailedValidation
	invalid.Status.ValidationErrors = []string{"one thing", "another thing"}
	statustest.Golden(t, "describe_backup_invalid.txt",
		(&BackupDescription{Backup: &invalid, Problems: []string{"the server does not answer"}}).Print)
}

func TestDescribeVolumesOfBackup(t *testing.T) {
	t.Parallel()
	b := backups()[0]
	b.Status.VolumeSnapshotsAttempted, b.Status.VolumeSnapshotsCompleted = 3, 2
	statustest.Golden(t, "describe_backup_volumes_few.txt", (&BackupDescription{Backup: &b}).Print)
	doc := &BackupDescription{Backup: &b, Volumes: []volumes.VolumeInfo{
		{PVName: "pv-1", BackupMethod: volumes.Native, Result: volumes.Succeeded,
			Native: &volumes.NativeInfo{SnapshotHandle: "snap-1", VolumeType: "ssd", VolumeAZ: "zone-1", IOPS: "300"}},
		{PVName: "pv-2", Skipped: true, SkippedReason: "no snapshot"},
		{PVCNamespace: "shop", PVCName: "data", BackupMethod: volumes.CSI, PreserveLocalSnapshot: true,
			Result: volumes.Succeeded, CSI: &volumes.CSIInfo{SnapshotHandle: "h", Size: 5, Driver: "d", VSCName: "content",
				OperationID: "op"}},
		{PVCNamespace: "shop", PVCName: "moved", BackupMethod: volumes.CSI, SnapshotDataMoved: true,
			Result: volumes.Unusable, DataMovement: &volumes.MovementInfo{DataMover: "velero", UploaderType: "kopia",
				OperationID: "du", Size: 7, IncrementalSize: 2}},
	}}
	statustest.Golden(t, "describe_backup_volumes_names.json", document(doc))
	doc.Details = true
	statustest.Golden(t, "describe_backup_volumes.txt", doc.Print)
	statustest.Golden(t, "describe_backup_volumes.json", document(doc))
}
