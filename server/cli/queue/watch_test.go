package queue

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/cli/status/statustest"
)

// memory is a view that records changes.
type memory struct{ seen []string }

func (m *memory) change(before, after *velerov1.Backup) error {
	switch {
	case after == nil:
		m.seen = append(m.seen, "-"+before.Name)
	case before == nil:
		m.seen = append(m.seen, "+"+after.Name)
	default:
		m.seen = append(m.seen, after.Name+" "+string(before.Status.Phase)+">"+string(after.Status.Phase))
	}
	return nil
}

func (m *memory) server(status.QueueServer) {}

func (m *memory) refresh(time.Time) error { return nil }

func (m *memory) note(string) {}

func (m *memory) end() error { return nil }

func TestRelistShowsMissedChanges(t *testing.T) {
	t.Parallel()
	known := map[string]*velerov1.Backup{}
	view := &memory{}
	list := func(backups ...*velerov1.Backup) []velerov1.Backup {
		var items []velerov1.Backup
		for _, b := range backups {
			items = append(items, *b)
		}
		return items
	}
	again := statustest.InQueue("again", velerov1.BackupPhaseQueued, 1)
	again.UID = "1"
	require.NoError(t, relist(known, list(statustest.InQueue("done", velerov1.BackupPhaseCompleted, 9), again,
		statustest.InQueue("runs", velerov1.BackupPhaseInProgress, 3), statustest.InQueue("gone", "", 1)), view))
	require.Equal(t, []string{"+runs", "+again", "+gone", "+done"}, view.seen, "in the order of the queue")
	view.seen = nil
	again.UID = "2"
	require.NoError(t, relist(known, list(again, statustest.InQueue("runs", velerov1.BackupPhaseFailed, 3),
		statustest.InQueue("done", velerov1.BackupPhaseCompleted, 9)), view))
	require.Equal(t, []string{"-again", "-gone", "+again", "done Completed>Completed", "runs InProgress>Failed"},
		view.seen)

	view.seen = nil
	require.NoError(t, apply(known,
		watch.Event{Type: watch.Modified, Object: statustest.InQueue("runs", velerov1.BackupPhaseCompleted, 3)}, view))
	require.NoError(t, apply(known,
		watch.Event{Type: watch.Deleted, Object: statustest.InQueue("runs", velerov1.BackupPhaseCompleted, 3)}, view))
	require.NoError(t, apply(known, watch.Event{Type: watch.Bookmark, Object: &velerov1.Restore{}}, view))
	require.Equal(t, []string{"runs Failed>Completed", "-runs"}, view.seen)
	expired := apierrors.NewResourceExpired("too old").Status()
	require.ErrorIs(t, apply(known, watch.Event{Type: watch.Error, Object: &expired}, view), errWatchEnded)
	forbidden := apierrors.NewForbidden(velerov1.Resource("backups"), "", errors.New("no")).Status()
	require.True(t, apierrors.IsForbidden(apply(known, watch.Event{Type: watch.Error, Object: &forbidden}, view)))
}
