package queue

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/cli/status/statustest"
	"github.com/cleat-dev/cleat/server/internal/control/policy"
)

// feed sends changes to a view.
func feed(t *testing.T, view queueView, events ...[2]*velerov1.Backup) {
	t.Helper()
	for _, e := range events {
		require.NoError(t, view.change(e[0], e[1]))
	}
}

// queueEvents returns changes, some of which are not shown.
func queueEvents() [][2]*velerov1.Backup {
	first := statustest.Waiting("b", 2, 5, velerov1.QueueWait{Reason: "Limit", Message: "the limit of 2 running backups " +
		"is reached"})
	moved := statustest.Waiting("b", 1, 5, velerov1.QueueWait{Reason: "Limit", Message: "the limit of 2 running backups " +
		"is reached"})
	labelled := moved.DeepCopy()
	labelled.Labels = map[string]string{"team": "a"}
	ready, runs := statustest.InQueue("b", velerov1.BackupPhaseReadyToStart, 5), statustest.InQueue("b",
		velerov1.BackupPhaseInProgress, 5)
	progress := runs.DeepCopy()
	progress.Status.Progress = &velerov1.BackupProgress{TotalItems: 3}
	done := statustest.InQueue("b", velerov1.BackupPhaseCompleted, 5)
	other := statustest.InQueue("other", "", 1)
	going := other.DeepCopy()
	going.DeletionTimestamp = statustest.At(0)
	return [][2]*velerov1.Backup{
		{nil, statustest.InQueue("old", velerov1.BackupPhaseCompleted, 90)},
		{nil, first},
		{first, moved},
		{moved, labelled},
		{labelled, ready},
		{ready, runs},
		{runs, progress},
		{progress, done},
		{done, nil},
		{nil, other},
		{other, going},
		{going, nil},
		{nil, ready},
		{ready, nil},
	}
}

func TestChangesLines(t *testing.T) {
	t.Parallel()
	statustest.Golden(t, "queue_changes.txt", func(w io.Writer) error {
		feed(t, &changes{write: textChanges(w), now: statustest.Noon}, queueEvents()...)
		return nil
	})
	statustest.Golden(t, "queue_changes.json", func(w io.Writer) error {
		feed(t, &changes{write: jsonChanges(w), now: statustest.Noon}, queueEvents()...)
		return nil
	})
}

func TestNewQueueViewWithoutTerminal(t *testing.T) {
	t.Parallel()
	file, err := os.Create(t.TempDir() + "/out")
	require.NoError(t, err)
	defer file.Close()
	for _, w := range []io.Writer{file, &bytes.Buffer{}} {
		view, err := newQueueView(w, w, "table")
		require.NoError(t, err)
		require.IsType(t, &changes{}, view)
	}
	_, err = newQueueView(file, file, "yaml")
	require.EqualError(t, err, `--output "yaml" with --watch: want table or json`)
}

func TestChangesNoteFailingPolicyOnce(t *testing.T) {
	t.Parallel()
	var notes bytes.Buffer
	view := &changes{notes: &notes, write: textChanges(io.Discard), now: statustest.Noon}
	for _, answer := range []status.QueueServer{
		{Limit: 1, Policy: statustest.Policy("")}, {Limit: 1, Policy: statustest.Policy(policy.ReasonDied)}, {Limit: 1,
			Policy: statustest.Policy(policy.ReasonFailed)},
		{Problem: "no answer"}, {Limit: 1, Policy: statustest.Policy("")}, {Limit: 1, Policy: statustest.Policy("")},
	} {
		view.server(answer)
	}
	require.Equal(t, "policy example.io/policy fails since 2026-03-04 11:55:00 +0000 UTC (5m ago), no backup starts "+
		"until it works again "+
		"(failurePolicy: Hold): QueueAdmission(example.io/policy): it is down\npolicy example.io/policy works again\n",
		notes.String())
}
