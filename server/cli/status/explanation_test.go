package status

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/status/statustest"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	held := statustest.Waiting("held", 5, 10, velerov1.QueueWait{Reason: "PolicyFailed", Message: "nothing is decided: " +
		"QueueAdmission(example.io/policy): it is down"})
	invalid := statustest.InQueue("invalid", velerov1.BackupPhaseFailedValidation, 5)
	invalid.Status.ValidationErrors = []string{"one thing", "another thing"}
	done := statustest.InQueue("done", velerov1.BackupPhaseCompleted, 100)
	done.Status.CompletionTimestamp = statustest.At(-time.Hour)
	runs := statustest.InQueue("runs", velerov1.BackupPhaseInProgress, 60)
	runs.Status.Progress = &velerov1.BackupProgress{TotalItems: 10, ItemsBackedUp: 3}
	byName := map[string]*velerov1.Backup{}
	for _, b := range statustest.Queue() {
		byName[b.Name] = b
	}
	byName["invalid"], byName["done"], byName["runs"], byName["held"] = invalid, done, runs, held
	line := queue.NewLine(statustest.Queue())
	statustest.Golden(t, "queue_explain.txt", func(w io.Writer) error {
		for _, name := range []string{
			"second", "first", "third", "fourth", "held", "unreadable", "fresh", "ready", "runs", "finishing", "done", "invalid",
			"going",
		} {
			_, _ = io.WriteString(w, "$ cleat queue explain "+name+"\n")
			if err := Explain(byName[name], line, nil, statustest.Noon()).Print(w, statustest.Noon()); err != nil {
				return err
			}
			_, _ = io.WriteString(w, "\n")
		}
		return nil
	})
	statustest.Golden(t, "queue_explain.json", func(w io.Writer) error {
		return layout.PrintJSON(w, Explain(byName["second"], line, nil, statustest.Noon()))
	})
}

func TestExplanationOfManyIsShort(t *testing.T) {
	t.Parallel()
	backups := []*velerov1.Backup{statustest.InQueue("b0", velerov1.BackupPhaseInProgress, 3000)}
	name := func(i int) string { return "b" + strings.Repeat("i", i) }
	backups[0].Name = name(0)
	for i := 1; i <= 1000; i++ {
		backups = append(backups, statustest.Waiting(name(i), i, 2000-i, velerov1.QueueWait{
			// in a ring, too
			Reason: "NamespaceOverlap", Message: "m", Blockers: []string{name(i - 1), name(max(0, i-2)), name((i + 1) % 1000)},
		}))
	}
	var out bytes.Buffer
	e := Explain(backups[1000], queue.NewLine(backups), nil, statustest.Noon())
	require.NoError(t, e.Print(&out, statustest.Noon()))
	require.Len(t, e.Chain, 1000)
	require.Contains(t, out.String(), "  ... and 970 more, see -o json\n")
}
