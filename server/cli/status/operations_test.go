package status

import (
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/status/statustest"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

const mebi = 1 << 20

// moving returns an operation that was created and started ten minutes before noon.
func moving(name, phase string, done, total int64, change ...func(*serverreport.Operation)) serverreport.Operation {
	o := serverreport.Operation{
		Plugin: "example.io/mover", ID: "op-" + name, Resource: "persistentvolumeclaims", Namespace: "shop", Name: name,
		Phase: phase, Done: done, Total: total,
		Units: "bytes", Created: statustest.At(-10 * time.Minute).Time,
	}
	if phase != "New" {
		o.Started, o.Updated = statustest.At(-10*time.Minute).Time, statustest.Noon()
	}
	for _, f := range change {
		f(&o)
	}
	return o
}

func operationsAtNoon() *serverreport.Operations {
	return serverreport.NewOperations(statustest.Noon(), []serverreport.OperationsOf{
		{Kind: "Backup", Name: "nightly", UID: "1", Operations: []serverreport.Operation{
			moving("cart", "Completed", 100*mebi, 100*mebi),
			moving("data", "InProgress", 512*mebi, 2048*mebi,
				func(o *serverreport.Operation) { o.Description = "copying part 7" }),
			moving("new", "New", 0, 0, func(o *serverreport.Operation) { o.Units = "" }),
			moving("old", "Failed", 1, 7*mebi, func(o *serverreport.Operation) {
				o.Error, o.LastLines = "disk\nfull\x1b[2J", "reading block 7\n\x1b[2Jno space left"
			}),
			moving("stuck", "InProgress", 300*mebi, 600*mebi, func(o *serverreport.Operation) {
				o.Trouble, o.Cancelled = "plugin is gone", "timed out after 4h0m0s"
			}),
		}},
		{Kind: "Backup", Name: "weekly", UID: "2", Omitted: 3, Operations: []serverreport.Operation{
			moving("logs", "InProgress", 10, 40, func(o *serverreport.Operation) { o.Units, o.Trouble = "files", "no answer" }),
			moving("mail", "InProgress", 3*mebi, 0, func(o *serverreport.Operation) { o.Cancelled = "on request" }),
		}},
		{Kind: "Restore", Name: "back", UID: "3",
			Operations: []serverreport.Operation{moving("data", "InProgress", 600*mebi, 1200*mebi)}},
	})
}

func TestOperationsTable(t *testing.T) {
	t.Parallel()
	document := NewOperations("velero", operationsAtNoon(), "")
	statustest.Golden(t, "operations.txt", func(w io.Writer) error { return document.Print(w, nil) })
	statustest.Golden(t, "operations.json", func(w io.Writer) error { return layout.PrintJSON(w, document) })

	before := operationsAtNoon()
	before.Time = before.Time.Add(-10 * time.Second)
	before.Owners[0].Amounts[0].Done -= 100 * mebi
	before.Owners[0].Operations[0].Done -= 100 * mebi
	before.Owners[2].Operations[0].Done += 10 * mebi // it goes backwards
	before.Owners[2].Amounts[0].Done += 10 * mebi
	statustest.Golden(t, "operations_rates.txt", func(w io.Writer) error { return document.Print(w, before) })

	document = NewOperations("velero", serverreport.NewOperations(statustest.Noon(), nil),
		"no answer within 5s:\nis the server running?")
	statustest.Golden(t, "operations_none.txt", func(w io.Writer) error { return document.Print(w, nil) })
}

func TestNumbersThatLieAreShownAsTheyAre(t *testing.T) {
	t.Parallel()
	const huge, least = math.MaxInt64, math.MinInt64
	noon := statustest.Noon()
	for name, tt := range map[string]struct {
		done, total      int64
		units            string
		created          time.Time
		started, updated time.Time
		before           *int64 // ten seconds ago
		want             string // done, percentage, rate, left, age
	}{
		"honest": {done: 5, total: 10, created: noon.Add(-time.Minute), started: noon.Add(-time.Minute),
			updated: noon, want: "5 of 10|50%|0.0833/s|60s|60s"},
		"nothing":            {want: "-|-|-|-|-"},
		"more than all":      {done: 15, total: 10, units: "files", want: "15 of 10 files|150%|-|-|-"},
		"much more than all": {done: huge, total: 1, units: "bytes", want: "8.0 EiB of 1 B|>999%|-|-|-"},
		"negative":           {done: -5, total: 10, want: "-5 of 10|-50%|-|-|-"},
		"very negative":      {done: least, total: 1, units: "b", want: "-8.0 EiB of 1 B|<-999%|-|-|-"},
		"negative total":     {done: 5, total: -10, want: "5 of -10|-|-|-|-"},
		"no total":           {done: 1536, units: "Bytes", want: "1.5 KiB|-|-|-|-"},
		"exactly":            {done: 29, total: 100, want: "29 of 100|29%|-|-|-"},
		"nearly all":         {done: 9999, total: 10000, want: "9999 of 10000|99%|-|-|-"},
		"backwards":          {done: 5, total: 10, before: new(int64(25)), want: "5 of 10|50%|-2/s|-|-"},
		"leaps": {done: huge, total: huge, units: "bytes", before: new(int64(least)),
			want: "8.0 EiB of 8.0 EiB|100%|1.6 EiB/s|-|-"},
		"for ever":          {done: 1, total: huge, before: new(int64(0)), want: "1 of 9223372036854775807|0%|0.1/s|>10y|-"},
		"stands still":      {done: 1, total: 10, before: new(int64(1)), want: "1 of 10|10%|0/s|-|-"},
		"created later":     {created: noon.Add(time.Hour), want: "-|-|-|-|<invalid>"},
		"created in year 1": {created: time.Date(1, 2, 3, 0, 0, 0, 0, time.UTC), want: "-|-|-|-|292y"},
		"updated in 9999": {done: 5, total: 10, started: noon, updated: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
			want: "5 of 10|50%|5.42e-10/s|>10y|-"},
		"updated before":     {done: 5, total: 10, started: noon, updated: noon.Add(-time.Hour), want: "5 of 10|50%|-|-|-"},
		"started, no update": {done: 5, total: 10, started: noon, want: "5 of 10|50%|-|-|-"},
		"odd units": {done: 5, total: 10, units: "\x1b[2J\nfiles\t" + strings.Repeat("x", 200),
			want: "5 of 10 �[2J files " + strings.Repeat("x", 147) + "...|50%|-|-|-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := serverreport.Operation{
				Plugin: "p", Resource: "pods", Name: "p", Phase: "InProgress", Done: tt.done, Total: tt.total, Units: tt.units,
				Created: tt.created, Started: tt.started, Updated: tt.updated,
			}
			owner := func(o serverreport.Operation) []serverreport.OperationsOf {
				return []serverreport.OperationsOf{{Kind: "Backup", Name: "b", Operations: []serverreport.Operation{o}}}
			}
			report := serverreport.NewOperations(noon, owner(o))
			var before *serverreport.Operations
			if tt.before != nil {
				earlier := o
				earlier.Done = *tt.before
				before = serverreport.NewOperations(noon.Add(-10*time.Second), owner(earlier))
			}
			table := OperationsTable(report, before)
			require.Len(t, table.Rows, 1)
			require.Equal(t, tt.want, strings.Join(table.Rows[0][2:7], "|"))
			sum := summaryCells(&report.Summary, newPaces(report, before).ofAll(report))
			if report.Silent == 0 && !strings.Contains(tt.want, "-10|") {
				require.Equal(t, table.Rows[0][2:6], sum[1:5], "the sum of one")
			}
		})
	}
}

func TestOperationChanges(t *testing.T) {
	t.Parallel()
	report := func(all ...serverreport.Operation) *serverreport.Operations {
		return serverreport.NewOperations(statustest.Noon(),
			[]serverreport.OperationsOf{{Kind: "Restore", Name: "r", UID: "1", Operations: all}})
	}
	fresh, half, more, done := moving("a", "New", 0, 0), moving("a", "InProgress", mebi, 2*mebi), moving("a", "InProgress",
		2*mebi, 2*mebi), moving("a", "Completed", 2*mebi, 2*mebi)
	lost, cancelled, failed := half, half, half
	lost.Trouble, cancelled.Cancelled, failed.Phase, failed.Error = "gone", "on request", "Failed", "it\nbroke"
	const name = "restore/r: example.io/mover for persistentvolumeclaims/shop/a: "
	require.Equal(t, []string{name + "New"}, OperationChanges(nil, report(fresh)))
	for want, tt := range map[string][2]serverreport.Operation{
		"InProgress, 1.0 MiB of 2.0 MiB": {fresh, half},
		"":                               {half, more},
		"Completed, 2.0 MiB of 2.0 MiB":  {half, done},
		"InProgress, 1.0 MiB of 2.0 MiB, the plugin does not answer: gone": {half, lost},
		"InProgress, 1.0 MiB of 2.0 MiB, being cancelled: on request":      {half, cancelled},
		"Failed, 1.0 MiB of 2.0 MiB, it broke":                             {cancelled, failed},
	} {
		var lines []string
		if want != "" {
			lines = []string{name + want}
		}
		require.Equal(t, lines, OperationChanges(report(tt[0]), report(tt[1])))
	}
	twins := report(half, half)
	twins.Owners[0].Operations[1].Name = "b"
	require.Len(t, OperationChanges(report(half), twins), 1, "an id that two operations share")
}

func TestOperationsProgress(t *testing.T) {
	t.Parallel()
	require.Empty(t, OperationsProgress(&serverreport.Summary{}))
	require.Equal(t, "1.0 MiB of 2.0 MiB",
		OperationsProgress(&serverreport.Summary{
			Amounts: []serverreport.Amount{{Units: "bytes", Done: mebi, Total: 2 * mebi}},
		}))
	require.Empty(t, OperationsProgress(&serverreport.Summary{Amounts: []serverreport.Amount{{Units: "bytes"},
		{Units: "files"}}}))
}

func TestDescribeOperations(t *testing.T) {
	t.Parallel()
	b := &backups()[0]
	b.Status.Phase = velerov1.BackupPhaseWaitingForPluginOperations
	b.Status.BackupItemOperationsAttempted, b.Status.BackupItemOperationsCompleted,
		b.Status.BackupItemOperationsFailed = 5, 1, 1
	var short strings.Builder
	require.NoError(t, NewBackupDescription(b).Print(&short))
	require.Contains(t, short.String(), "\nBackup Item Operations:  1 of 5 completed successfully, 1 failed, 3 open "+
		"(specify --details for more information)\n")
	document := NewBackupDescription(b)
	document.Operations = operationsAtNoon().Only("Backup", "1")
	statustest.Golden(t, "describe_backup_operations.txt", document.Print)

	b.Status.Phase = velerov1.BackupPhaseFailed
	var failed strings.Builder
	require.NoError(t, NewBackupDescription(b).Print(&failed))
	require.Contains(t, failed.String(), "\nBackup Item Operations:  1 of 5 completed successfully, 1 failed, 3 "+
		"cancelled because the backup failed\n")

	r := &velerov1.Restore{Status: velerov1.RestoreStatus{
		Phase: velerov1.RestorePhaseCompleted, RestoreItemOperationsAttempted: 2, RestoreItemOperationsCompleted: 2,
	}}
	var unknown strings.Builder
	require.NoError(t, (&RestoreDescription{Restore: r, Operations: serverreport.NewOperations(statustest.Noon(),
		[]serverreport.OperationsOf{
			{Kind: "Restore", Name: "r", Problem: "no such file"},
		})}).Print(&unknown))
	require.Contains(t, unknown.String(), "\nRestore Item Operations:  2 of 2 completed successfully, 0 failed\n")
	require.Regexp(t, `\(sum\) +no such file\n`, unknown.String())
}

func TestCancellation(t *testing.T) {
	t.Parallel()
	for phase, want := range map[velerov1.BackupPhase]string{
		"":                             "it does not start, and becomes Failed",
		velerov1.BackupPhaseQueued:     "it does not start, and becomes Failed",
		velerov1.BackupPhaseInProgress: "it stops and becomes Failed, and the operations that it has started are cancelled",
		velerov1.BackupPhaseWaitingForPluginOperationsPartiallyFailed: "its open operations (3) are cancelled, and it " +
			"becomes PartiallyFailed when they have ended",
		velerov1.BackupPhaseFinalizing: "backup b is Finalizing: its work and its " +
			"operations have ended, so there is nothing to cancel; wait for its end",
		velerov1.BackupPhaseCompleted: "backup b has ended (Completed), so there is " +
			"nothing to cancel",
		velerov1.BackupPhaseDeleting: "backup b has ended (Deleting), so there is nothing " +
			"to cancel",
	} {
		b := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "b"},
			Status: velerov1.BackupStatus{Phase: phase, BackupItemOperationsAttempted: 4, BackupItemOperationsFailed: 1}}
		follows, err := BackupRun(b).Cancellation()
		if err != nil {
			follows = err.Error()
		}
		require.Equal(t, want, follows)
	}
	waits := &velerov1.Restore{Status: velerov1.RestoreStatus{Phase: velerov1.RestorePhaseFinalizing,
		HookStatus: &velerov1.HookStatus{HooksAttempted: 1}}}
	follows, err := RestoreRun(waits).Cancellation()
	require.NoError(t, err)
	require.Equal(t, "its hooks that have not begun are not run, and if there are some it becomes PartiallyFailed",
		follows)
}

// brokenWriter fails after some writes.
type brokenWriter struct{ left int }

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.left--; w.left < 0 {
		return 0, errors.New("no space left")
	}
	return len(p), nil
}

func TestOperationsReportErrorsOfWriting(t *testing.T) {
	t.Parallel()
	document := NewOperations("velero", operationsAtNoon(), "away")
	for left := range 2 {
		require.EqualError(t, document.Print(&brokenWriter{left}, nil), "no space left")
	}
}
