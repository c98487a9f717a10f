package backups

import (
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

// A backup whose location has become unavailable since its admission goes back to the queue as it was. If there is
// another problem, waiting does not help, and the backup fails its validation.
func TestBackupGoesBackToTheQueueForItsLocation(t *testing.T) {
	t.Parallel()
	c := controllertest.NewCluster(t, nil)
	unavailable := func(l *velerov1.BackupStorageLocation) {
		l.Status.Phase = velerov1.BackupStorageLocationPhaseUnavailable
	}
	readOnly := func(l *velerov1.BackupStorageLocation) {
		l.Spec.AccessMode = velerov1.BackupStorageLocationAccessModeReadOnly
	}
	c.Add(t, controllertest.NewLocation("default", unavailable), controllertest.NewLocation("closed", readOnly),
		controllertest.NewLocation("both", readOnly, unavailable),
		controllertest.NewLocation("fresh", func(l *velerov1.BackupStorageLocation) { l.Status.Phase = "" }))
	for name, tt := range map[string]struct {
		location string
		excluded []string // namespaces
		want     velerov1.BackupPhase
	}{
		"unavailable":                 {location: "", want: velerov1.BackupPhaseQueued},
		"not-validated":               {location: "fresh", want: velerov1.BackupPhaseQueued},
		"read-only":                   {location: "closed", want: velerov1.BackupPhaseFailedValidation},
		"read-only-and-unavailable":   {location: "both", want: velerov1.BackupPhaseFailedValidation},
		"no-such-location":            {location: "none", want: velerov1.BackupPhaseFailedValidation},
		"bad-namespace-and-no-bucket": {location: "", excluded: []string{"A"}, want: velerov1.BackupPhaseFailedValidation},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			admitted := controllertest.NewBackup(name, controllertest.InPhase(velerov1.BackupPhaseReadyToStart),
				func(b *velerov1.Backup) {
					b.Spec.StorageLocation, b.Spec.ExcludedNamespaces = tt.location, tt.excluded
				})
			c.Add(t, admitted)
			active := run.NewRuns(run.RunsOptions{Kind: "backup", Lost: t.Context()}).Begin(t.Context(), admitted.UID)
			defer active.End()
			_, err := newBackups(c).start(t.Context(), active, admitted.DeepCopy())
			require.NoError(t, err)
			b := c.Backup(t, name)
			require.Equal(t, tt.want, b.Status.Phase)
			if tt.want != velerov1.BackupPhaseQueued {
				require.NotEmpty(t, b.Status.ValidationErrors)
				return
			}
			require.Equal(t, velerov1.BackupStatus{Phase: velerov1.BackupPhaseQueued, QueuePosition: 1}, b.Status)
			require.Equal(t, admitted.Spec, b.Spec)
			require.Equal(t, admitted.Labels, b.Labels)
			require.Equal(t, admitted.Annotations, b.Annotations)
		})
	}
}
