package volumes_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptVolumes_BackupsOfVelero restores backups of Velero with the data of volumes that this server cannot
// restore, or not without their snapshot location: each volume is an error, and the restore is PartiallyFailed.
// Volumes without data are treated as by Velero: a retained one is restored unchanged, one that was deleted with its
// claim is not.
func TestAcceptVolumes_BackupsOfVelero(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Serve()
	s.Available()
	const lost = "is not restored, it stays empty: the data is in "
	for name, tt := range map[string]struct {
		files map[string]string
		spec  velerov1.RestoreSpec
		want  []string // one for each lost volume
		phase velerov1.RestorePhase
	}{
		"volumeinfo": {
			files: map[string]string{"-volumeinfo.json.gz": `[
				{"pvcName":"native","pvcNamespace":"NS","pvName":"NS-native","backupMethod":"NativeSnapshot","nativeSnapshotInfo":{"snapshotHandle":"snap-1"}},
				{"pvcName":"csi","pvcNamespace":"NS","pvName":"NS-csi","backupMethod":"CSISnapshot","csiSnapshotInfo":{"snapshotHandle":"h","driver":"ebs"}},
				{"pvcName":"moved","pvcNamespace":"NS","pvName":"NS-moved","backupMethod":"CSISnapshot","snapshotDataMoved":true,"snapshotDataMovementInfo":{"snapshotHandle":"m","dataMover":"velero"}},
				{"pvcName":"files","pvcNamespace":"NS","pvName":"NS-files","backupMethod":"PodVolumeBackup","pvbInfo":{"snapshotHandle":"k","uploaderType":"kopia","podName":"db","podNamespace":"NS","volumeName":"files"}},
				{"pvName":"","backupMethod":"PodVolumeBackup","pvbInfo":{"snapshotHandle":"k2","uploaderType":"kopia","podName":"db","podNamespace":"NS","volumeName":"cache"}},
				{"pvcName":"plain","pvcNamespace":"NS","pvName":"NS-plain","skipped":true,"skippedReason":"no snapshot"},
				{"pvcName":"empty","pvcNamespace":"NS","pvName":"NS-empty","skipped":true}]`},
			want: []string{
				"persistent volume claim NS/csi " + lost + "snapshot h of CSI driver ebs", "persistent volume claim NS/files " +
					lost + "file system backup k of kopia",
				"persistent volume claim NS/moved " + lost + "snapshot m of data mover velero", "persistent volume claim NS/native " + lost + "snapshot snap-1",
				"volume cache of pod NS/db " + lost + "file system backup k2 of kopia",
			},
			phase: velerov1.RestorePhasePartiallyFailed,
		},
		"before-volumeinfo": {
			files: map[string]string{
				"-volumesnapshots.json.gz":  `[{"spec":{"location":"aws","persistentVolumeName":"NS-native"},"status":{"providerSnapshotID":"snap-1","phase":"Completed"}}]`,
				"-podvolumebackups.json.gz": `[{"metadata":{"annotations":{"velero.io/pvc-name":"files"}},"spec":{"pod":{"namespace":"NS","name":"db"},"volume":"files"},"status":{"phase":"Completed","snapshotID":"r"}}]`,
			},
			want: []string{"persistentvolumes/NS-native: make a volume of snapshot snap-1: volume snapshot location " +
				s.Namespace + "/aws does not exist", "persistent volume claim NS/files " + lost + "file system backup r of restic"},
			phase: velerov1.RestorePhasePartiallyFailed,
		},
		"without-data": {files: nil, phase: velerov1.RestorePhaseCompleted},
		"not-wanted": {
			files: map[string]string{
				"-volumeinfo.json.gz": `[{"pvcName":"csi","pvcNamespace":"NS","pvName":"NS-csi","backupMethod":"CSISnapshot","csiSnapshotInfo":{"snapshotHandle":"h"}}]`,
			},
			spec: velerov1.RestoreSpec{RestorePVs: new(bool)}, phase: velerov1.RestorePhaseCompleted,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := *s
			s.T = t
			s.VeleroMade(name, tt.files, false)
			ns := s.Namespace + "-" + name
			t.Cleanup(func() { s.DropVolume(ns + "-plain") })
			tt.spec.BackupName = name
			require.NoError(t, s.Client.Create(t.Context(),
				&velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}, Spec: tt.spec}))
			var done velerov1.Restore
			s.Eventually("the restore ends", func(ctx context.Context) (bool, error) {
				err := s.Client.Get(ctx, s.Key(name), &done)
				return done.Status.Phase.Terminal(), err
			})
			found := site.ReadJSON[results.Results](t, &s, "restores", name, "restore-"+name+"-results.gz")
			require.Equal(t, tt.phase, done.Status.Phase, "%+v", found)
			require.Equal(t, len(tt.want), done.Status.Errors, "%+v", found.Errors)
			text, err := json.Marshal(found.Errors)
			require.NoError(t, err)
			for _, want := range tt.want {
				require.Contains(t, string(text), strings.ReplaceAll(want, "NS", ns))
			}

			volume := func(claim string) (pv corev1.PersistentVolume, exists bool) {
				return pv, s.Client.Get(t.Context(), client.ObjectKey{Name: ns + "-" + claim}, &pv) == nil
			}
			_, exists := volume("plain")
			require.True(t, exists, "a retained volume without data in the backup is restored as it is")
			_, exists = volume("empty")
			require.False(t, exists, "a volume that was deleted with its claim is not restored")
			_, exists = volume("csi")
			require.False(t, exists, "the claim gets a new volume")
			for _, claim := range []string{"native", "csi", "moved", "files", "plain", "empty"} {
				var pvc corev1.PersistentVolumeClaim
				require.NoError(t, s.Client.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: claim}, &pvc))
				_, exists := volume(claim)
				waits := claim == "native" && name == "before-volumeinfo" // for a volume that can be restored later
				require.Equal(t, exists || waits, pvc.Spec.VolumeName != "", "claim %s is to be bound to %q", claim,
					pvc.Spec.VolumeName)
			}
		})
	}
}

// TestAcceptVolumes_DataMovedByVelero restores a backup whose data Velero has moved with kopia, with a server that
// restores moved data. The claim is not restored, and the error contains the solution; following it restores the
// claim.
func TestAcceptVolumes_DataMovedByVelero(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Serve("--features", "EnableCSI")
	s.Available()
	s.VeleroMade("kopia", map[string]string{"-volumeinfo.json.gz": `[{"pvcName":"moved","pvcNamespace":"NS","pvName":"NS-moved","backupMethod":"CSISnapshot",
		"snapshotDataMoved":true,"snapshotDataMovementInfo":{"snapshotHandle":"m","dataMover":"velero","uploaderType":"kopia"}}]`}, true)
	ns := s.Namespace + "-kopia"
	t.Cleanup(func() { s.DropVolume(ns + "-plain") })
	restore := func(name string, restorePVs *bool) *velerov1.Restore {
		r := &velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
			Spec: velerov1.RestoreSpec{BackupName: "kopia", RestorePVs: restorePVs}}
		require.NoError(t, s.Client.Create(t.Context(), r))
		return r
	}
	key := client.ObjectKey{Namespace: ns, Name: "moved"}
	// Without an agent, nobody would move the data, and the claim would fail at once.
	require.NoError(t, s.Client.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "agent", Labels: map[string]string{"role": "node-agent"}},
		Spec: corev1.PodSpec{AutomountServiceAccountToken: new(false), Containers: []corev1.Container{
			{Name: "agent", Image: "cleat.invalid/cleat:1"},
		}},
	}))
	withData := restore("with-data", nil)
	var loads velerov2alpha1.DataDownloadList
	s.Eventually("the data is to be moved", func(ctx context.Context) (bool, error) {
		err := s.Client.List(ctx, &loads, client.InNamespace(s.Namespace))
		return len(loads.Items) == 1, err
	})
	require.Equal(t, velerov1.KopiaDataMover, loads.Items[0].Spec.DataMover)
	require.Equal(t, "m", loads.Items[0].Spec.SnapshotID)
	var moved corev1.PersistentVolumeClaim
	s.Eventually("the claim is restored", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, key, &moved)
		return err == nil, client.IgnoreNotFound(err)
	})
	require.NotNil(t, moved.Spec.Selector, "a provisioner would make an empty volume")
	require.NoError(t, s.Client.Delete(t.Context(), withData))
	require.NoError(t, s.Client.Delete(t.Context(), &moved))
	s.Eventually("the claim is deleted", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, key, &moved)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})

	restore("without-data", new(bool))
	var done velerov1.Restore
	s.Eventually("the restore ends", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, s.Key("without-data"), &done)
		return done.Status.Phase.Terminal(), err
	})
	require.Equal(t, velerov1.RestorePhaseCompleted, done.Status.Phase)
	require.NoError(t, s.Client.Get(t.Context(), key, &moved))
	require.Nil(t, moved.Spec.Selector)
}

// TestGapsAreInLogResultsStatusAndEvents runs a backup and a restore with fields that have no effect.
func TestGapsAreInLogResultsStatusAndEvents(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Shop = s.Workload(1)
	require.NoError(t, s.Client.Create(t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: s.Namespace, Labels: map[string]string{"gaps": s.Namespace}},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName:       "of-no-claim",
			Capacity:               corev1.ResourceList{"storage": resource.MustParse("1Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}},
		},
	}))
	t.Cleanup(func() { s.DropVolume(s.Namespace) })
	s.Serve()
	s.Available()
	yes := true
	require.NoError(t, s.Client.Create(t.Context(),
		&velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "gaps"}, Spec: velerov1.BackupSpec{
			IncludedNamespaces: []string{s.Shop}, IncludedClusterScopedResources: []string{"persistentvolumes"},
			SnapshotMoveData: &yes, DataMover: "mine",
		}}))
	var done velerov1.Backup
	s.Eventually("the backup ends", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, s.Key("gaps"), &done)
		return done.Status.Phase.Terminal(), err
	})
	require.Equal(t, velerov1.BackupPhaseCompleted, done.Status.Phase)
	require.Equal(t, 1, done.Status.Warnings)
	warnings := site.ReadJSON[results.Results](t, s, "backups", "gaps", "gaps-results.gz").Warnings.Velero
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "so these have no effect: spec.snapshotMoveData, spec.datamover")

	stored, err := os.ReadFile(filepath.Join(s.BucketDir, "backups", "gaps", "gaps-logs.gz"))
	require.NoError(t, err)
	gz, err := gzip.NewReader(bytes.NewReader(stored))
	require.NoError(t, err)
	text, err := io.ReadAll(gz)
	require.NoError(t, err)
	log := string(text)
	require.Equal(t, 1, strings.Count(log, "level=warning"), log)
	require.Equal(t, done.Status.Progress.ItemsBackedUp, strings.Count(log, `msg="Backed up `))
	s.Eventually("the events", func(ctx context.Context) (bool, error) {
		var list eventsv1.EventList
		err := s.Client.List(ctx, &list, client.InNamespace(s.Namespace))
		notes := ""
		for _, event := range list.Items {
			if event.Reason == "NotSupported" && event.Regarding.Name == "gaps" {
				notes += event.Note + "\n"
			}
		}
		return strings.Contains(notes, "spec.datamover"), err
	})
}
