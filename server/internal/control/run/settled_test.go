package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

// Of all phases, only those in which a backup has ended are settled, and only if no files and no dry run are left.
func TestUnsettledBackups(t *testing.T) {
	t.Parallel()
	in := func(phase velerov1.BackupPhase, change ...func(*velerov1.Backup)) *velerov1.Backup {
		b := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Status: velerov1.BackupStatus{Phase: phase}}
		for _, c := range change {
			c(b)
		}
		return b
	}
	annotated := func(name, value string) func(*velerov1.Backup) {
		return func(b *velerov1.Backup) { b.Annotations = map[string]string{name: value} }
	}
	events := run.UnsettledBackups()
	for name, tt := range map[string]struct {
		backup  *velerov1.Backup
		settled bool
	}{
		"entering":           {backup: in("")},
		"new":                {backup: in(velerov1.BackupPhaseNew)},
		"queued":             {backup: in(velerov1.BackupPhaseQueued)},
		"ready":              {backup: in(velerov1.BackupPhaseReadyToStart)},
		"in progress":        {backup: in(velerov1.BackupPhaseInProgress)},
		"waiting":            {backup: in(velerov1.BackupPhaseWaitingForPluginOperations)},
		"finalizing":         {backup: in(velerov1.BackupPhaseFinalizingPartiallyFailed)},
		"deleting":           {backup: in(velerov1.BackupPhaseDeleting)},
		"of a later version": {backup: in("Archived")},
		"completed":          {backup: in(velerov1.BackupPhaseCompleted), settled: true},
		"partially failed":   {backup: in(velerov1.BackupPhasePartiallyFailed), settled: true},
		"invalid":            {backup: in(velerov1.BackupPhaseFailedValidation), settled: true},
		"failed":             {backup: in(velerov1.BackupPhaseFailed), settled: true},
		"failed, with files": {backup: in(velerov1.BackupPhaseFailed, annotated(run.PartialDataAnnotation, "true"))},
		"requested dry run": {backup: in(velerov1.BackupPhaseFailedValidation,
			annotated(velerov1.DryRunAnnotation, velerov1.DryRunRequested))},
		"dry run that ended": {backup: in(velerov1.BackupPhaseFailedValidation,
			annotated(velerov1.DryRunAnnotation, velerov1.DryRunDone))},
		"held by a finalizer": {backup: in(velerov1.BackupPhaseCompleted,
			func(b *velerov1.Backup) { b.Finalizers = []string{"example.com/keep"} })},
		"of a dry run, deleted": {backup: in(velerov1.BackupPhaseFailedValidation,
			func(b *velerov1.Backup) { b.Finalizers = []string{"cleat.dev/dry-run"} })},
	} {
		require.Equal(t, !tt.settled, events.Create(event.CreateEvent{Object: tt.backup}), "%s: appears", name)
		require.Equal(t, !tt.settled, events.Update(event.UpdateEvent{ObjectOld: tt.backup, ObjectNew: tt.backup}),
			"%s: a resync", name)
		require.True(t, events.Update(event.UpdateEvent{ObjectOld: in(velerov1.BackupPhaseInProgress), ObjectNew: tt.backup}),
			"%s: after its run", name)
		require.True(t, events.Update(event.UpdateEvent{ObjectOld: tt.backup, ObjectNew: in(velerov1.BackupPhaseNew)}),
			"%s: replaced by a new one", name)
		require.True(t, events.Delete(event.DeleteEvent{Object: tt.backup}), "%s: deleted", name)
	}
}
