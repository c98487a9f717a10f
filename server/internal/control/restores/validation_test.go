package restores

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

func TestSourceOfARestore(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	of := func(schedule string, phase velerov1.BackupPhase, hour int) func(*velerov1.Backup) {
		return func(b *velerov1.Backup) {
			b.Labels = map[string]string{velerov1.ScheduleNameLabel: schedule}
			b.Spec.StorageLocation = "default"
			b.Status.Phase = phase
			b.Status.StartTimestamp = run.Timestamp(controllertest.Noon().Add(time.Duration(hour) * time.Hour))
		}
	}
	in := func(location string, phase velerov1.BackupPhase) func(*velerov1.Backup) {
		return func(b *velerov1.Backup) { b.Spec.StorageLocation, b.Status.Phase = location, phase }
	}
	c.Add(t,
		controllertest.NewLocation("default"),
		controllertest.NewLocation("broken", func(l *velerov1.BackupStorageLocation) {
			l.Status.Phase = velerov1.BackupStorageLocationPhaseUnavailable
		}),
		controllertest.NewBackup("daily-1", of("daily", velerov1.BackupPhaseCompleted, 1)),
		controllertest.NewBackup("daily-2", of("daily", velerov1.BackupPhaseCompleted, 2)),
		controllertest.NewBackup("daily-3", of("daily", velerov1.BackupPhasePartiallyFailed, 3)),
		controllertest.NewBackup("partial", in("default", velerov1.BackupPhasePartiallyFailed)),
		controllertest.NewBackup("failed", in("default", velerov1.BackupPhaseFailed)),
		controllertest.NewBackup("new", in("default", "")),
		controllertest.NewBackup("running", in("default", velerov1.BackupPhaseInProgress)),
		controllertest.NewBackup("deleting", in("default", velerov1.BackupPhaseDeleting)),
		controllertest.NewBackup("undeleted", of("undeleted", velerov1.BackupPhaseDeleting, 1), func(b *velerov1.Backup) {
			b.Annotations = map[string]string{run.DeletedInPhaseAnnotation: string(velerov1.BackupPhaseCompleted)}
		}),
		controllertest.NewBackup("half-deleted", in("default", velerov1.BackupPhaseDeleting), func(b *velerov1.Backup) {
			b.Status.CompletionTimestamp = run.Timestamp(controllertest.Noon())
		}),
		&velerov1.DeleteBackupRequest{
			ObjectMeta: metav1.ObjectMeta{Name: "half-deleted"}, Spec: velerov1.DeleteBackupRequestSpec{
				BackupName: "half-deleted",
			},
		},
		&velerov1.DeleteBackupRequest{
			ObjectMeta: metav1.ObjectMeta{Name: "undeleted"}, Spec: velerov1.DeleteBackupRequestSpec{BackupName: "undeleted"},
			Status: velerov1.DeleteBackupRequestStatus{Phase: velerov1.DeleteBackupRequestPhaseProcessed},
		},
		controllertest.NewBackup("lost", in("elsewhere", velerov1.BackupPhaseCompleted)),
		controllertest.NewBackup("unreachable", in("broken", velerov1.BackupPhaseCompleted)),
	)
	for name, tt := range map[string]struct {
		backup, schedule string
		wantBackup       string
		wantProblem      string
	}{
		"backup":               {backup: "daily-1", wantBackup: "daily-1"},
		"partial":              {backup: "partial", wantBackup: "partial"},
		"newest of a schedule": {schedule: "daily", wantBackup: "daily-2"},
		"neither":              {wantProblem: "Either a backup or schedule must be specified"},
		"both": {backup: "daily-1", schedule: "daily",
			wantProblem: "Either a backup or schedule must be specified"},
		"no such backup": {backup: "none", wantProblem: "/none does not exist"},
		"no backups":     {schedule: "weekly", wantProblem: "No completed backups found for schedule weekly"},
		"failed": {backup: "failed", wantProblem: "backup failed is in phase Failed, want Completed or " +
			"PartiallyFailed"},
		"new": {backup: "new", wantProblem: "backup new is in phase New, want"},
		"running": {backup: "running", wantProblem: "backup running is in phase InProgress, want Completed or " +
			"PartiallyFailed"},
		"deleting":  {backup: "deleting", wantProblem: "backup deleting is in phase Deleting, want"},
		"undeleted": {backup: "undeleted", wantBackup: "undeleted"},
		"half deleted": {backup: "half-deleted",
			wantProblem: "backup half-deleted is being deleted, see DeleteBackupRequest half-deleted"},
		"lost location": {backup: "lost",
			wantProblem: `backup storage location "elsewhere" of backup lost does not exist`},
		"broken location": {backup: "unreachable",
			wantProblem: "the backup cannot be read: BackupStorageLocation broken is in Unavailable status"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			restore := &velerov1.Restore{
				ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: "r"},
				Spec:       velerov1.RestoreSpec{BackupName: tt.backup, ScheduleName: tt.schedule},
			}
			r := &Controller{Cluster: c.Cluster, ItemOperationTimeout: 4 * time.Hour}
			src, err := r.prepare(t.Context(), restore)
			require.NoError(t, err)
			require.Equal(t, 4*time.Hour, restore.Spec.ItemOperationTimeout.Duration)
			require.Subset(t, restore.Spec.ExcludedResources, []string{"nodes", "events", "backups.velero.io",
				"volumeattachments.storage.k8s.io"})
			if tt.wantProblem != "" {
				require.Len(t, restore.Status.ValidationErrors, 1)
				require.Contains(t, restore.Status.ValidationErrors[0], tt.wantProblem)
				return
			}
			require.Empty(t, restore.Status.ValidationErrors)
			require.Equal(t, tt.wantBackup, src.backup.Name)
			require.Equal(t, tt.wantBackup, restore.Spec.BackupName)
			require.Equal(t, src.backup.Labels[velerov1.ScheduleNameLabel], restore.Labels[velerov1.ScheduleNameLabel])
		})
	}
}

func TestRestoreSpecIsValidated(t *testing.T) {
	t.Parallel()
	initHook := func(container string) velerov1.RestoreHooks {
		return velerov1.RestoreHooks{Resources: []velerov1.RestoreResourceHookSpec{{Name: "h",
			PostHooks: []velerov1.RestoreResourceHook{
				{Init: &velerov1.InitRestoreHook{InitContainers: []runtime.RawExtension{{Raw: []byte(container)}}}},
			}}}}
	}
	for name, tt := range map[string]struct {
		spec velerov1.RestoreSpec
		want []string
	}{
		"nothing": {velerov1.RestoreSpec{}, nil},
		"not restorable": {velerov1.RestoreSpec{IncludedResources: []string{"nodes"}},
			[]string{"nodes are non-restorable resources"}},
		"in both": {velerov1.RestoreSpec{IncludedNamespaces: []string{"a"}, ExcludedNamespaces: []string{"a"}},
			[]string{"Invalid included/excluded namespace lists"}},
		"exclude all": {velerov1.RestoreSpec{ExcludedNamespaces: []string{"*"}},
			[]string{"excludes list cannot contain '*'"}},
		"update": {velerov1.RestoreSpec{ExistingResourcePolicy: "update"}, nil},
		"overwrite": {velerov1.RestoreSpec{ExistingResourcePolicy: "overwrite"},
			[]string{"Invalid ExistingResourcePolicy: overwrite; want none or update"}},
		"status in both": {velerov1.RestoreSpec{
			RestoreStatus: &velerov1.RestoreStatusSpec{IncludedResources: []string{"a"}, ExcludedResources: []string{"a"}},
		}, []string{"resource lists of restoreStatus"}},
		"init container": {velerov1.RestoreSpec{Hooks: initHook(`{"name":"n","image":"i","command":["c"]}`)}, nil},
		"half init container": {velerov1.RestoreSpec{Hooks: initHook(`{"name":"n","image":"i"}`)},
			[]string{"hook h: init container 0: want name, image and command"}},
		"bad init container": {velerov1.RestoreSpec{Hooks: initHook(`[]`)}, []string{"hook h: init container 0: json"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			problems := CheckSpec(&tt.spec)
			require.Len(t, problems, len(tt.want), problems)
			for i, want := range tt.want {
				require.Contains(t, problems[i], want)
			}
		})
	}
}
