package operations_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	"github.com/cleat-dev/cleat/framework"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	"github.com/cleat-dev/cleat/framework/internal/glue"
	"github.com/cleat-dev/cleat/framework/operations"
	"github.com/cleat-dev/cleat/framework/plugintest"
)

// progressAfter returns the progress of an operation after report, which is called before the work waits for its end.
func progressAfter(t *testing.T, report func(run *operations.Run)) framework.OperationProgress {
	t.Helper()
	p := newProcess(newResources(), func(ctx context.Context, _ volume, run *operations.Run) error {
		report(run)
		<-ctx.Done()
		return ctx.Err()
	})
	defer p.Close()
	return mustProgress(t, p, mustStart(t, p, "k"))
}

func TestReportIsValidOnWire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(newResources(), func(ctx context.Context, _ volume, run *operations.Run) error {
			var reports sync.WaitGroup
			for range 4 {
				reports.Go(func() { run.Report(-1, -5, "\xff", "\xfe") })
			}
			reports.Wait()
			<-ctx.Done()
			return ctx.Err()
		})
		defer p.Close()
		progress := mustProgress(t, p, mustStart(t, p, "k"))
		require.Zero(t, progress.NCompleted)
		require.Zero(t, progress.NTotal)
		require.Equal(t, "\uFFFD", progress.Units)
		require.Equal(t, "\uFFFD", progress.Description)
	})
}

func TestDescribeKeepsCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		progress := progressAfter(t, func(run *operations.Run) {
			run.Report(1, 2, "volumes", "copying")
			run.Describe("verifying \xff")
		})
		require.Equal(t, "verifying \uFFFD", progress.Description)
		require.Equal(t, "volumes", progress.Units)
		require.EqualValues(t, 1, progress.NCompleted)
		require.EqualValues(t, 2, progress.NTotal)
	})
}

// logging is an action whose work logs a line after the call that started it has returned.
type logging struct {
	abiav1.AsyncBackupItemAction
	runner *operations.Runner[volume]
}

func (l *logging) Start(ctx context.Context, input *abiav1.StartInput) (*abiav1.StartOutput, error) {
	id, err := l.runner.Start(ctx, input.Key, volume{})
	return abiav1.NewStartOutput(nil).WithOperation(id), err
}

func TestLastLinesOfOutputAreReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newResources()
		p := newProcess(store, func(_ context.Context, _ volume, run *operations.Run) error {
			for i := range 1000 {
				_, err := fmt.Fprintf(run.Output(), "read block %d\n", i)
				require.NoError(t, err)
			}
			n, err := run.Output().Write(bytes.Repeat([]byte("x"), 1<<20))
			require.NoError(t, err)
			require.Equal(t, 1<<20, n)
			fmt.Fprint(run.Output(), "\nblock 1000 ")
			fmt.Fprint(run.Output(), "cannot be \xff read\n")
			return errors.New("disk full")
		})
		id := mustStart(t, p, "k")
		synctest.Wait()
		want := "..." + strings.Repeat("x", 2048-len("\nblock 1000 cannot be \uFFFD read")) +
			"\nblock 1000 cannot be \uFFFD read"
		progress := mustProgress(t, p, id)
		require.Equal(t, []string{"disk full", want}, []string{progress.Err, progress.LastLines})
		p.Close()
		next := newProcess(store, until(nil))
		defer next.Close()
		require.Equal(t, want, mustProgress(t, next, id).LastLines, "the next process reports them too")
	})
}

func TestLogNamesOperationAndRun(t *testing.T) {
	t.Parallel()
	returned := make(chan struct{})
	runner := operations.NewRunner("example.io/mover", newResources(),
		func(_ context.Context, _ volume, run *operations.Run) error {
			<-returned
			run.Log().Info("copying", "volume", "data")
			return nil
		})
	t.Cleanup(runner.Close)
	plugin := plugintest.Run(t,
		abiav1.Register("example.io/mover", func(context.Context, *framework.Setup) (abiav1.AsyncBackupItemAction, error) {
			return &logging{runner: runner}, nil
		}))
	ctx := metadata.AppendToOutgoingContext(t.Context(), glue.RunMetadata, "backup-1")
	started, err := plugin.AsyncBackupItemActionV1("example.io/mover").Start(ctx, &abiav1.StartInput{
		Item: plugintest.Object(t,
			`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: shop, name: data}}`),
		Backup: plugintest.Backup("nightly"), Key: "k",
	})
	require.NoError(t, err)
	close(returned)
	line := plugin.AwaitLog("copying")
	require.Equal(t, started.OperationID, line.Fields["operation"])
	require.Equal(t, "data", line.Fields["volume"])
	require.Equal(t, "backup-1", line.Fields[glue.RunKey])
}

// failing is a writer and reader that handles n bytes and fails then.
type failing struct{ n int }

var errFailing = errors.New("cable cut")

func (f failing) Write([]byte) (int, error) { return f.n, errFailing }
func (f failing) Read([]byte) (int, error)  { return f.n, errFailing }

func TestWriterAndReaderCountBytes(t *testing.T) {
	t.Parallel()
	const content = "0123456789"
	for name, test := range map[string]struct {
		before func(run *operations.Run)
		copies func(t *testing.T, run *operations.Run)
		want   framework.OperationProgress
	}{
		"writer": {nil, func(t *testing.T, run *operations.Run) {
			var target bytes.Buffer
			_, err := io.Copy(run.Writer(&target, 20), strings.NewReader(content))
			require.NoError(t, err)
			require.Equal(t, content, target.String())
		}, framework.OperationProgress{NCompleted: 10, NTotal: 20}},
		"reader": {nil, func(t *testing.T, run *operations.Run) {
			got, err := io.ReadAll(run.Reader(strings.NewReader(content), 20))
			require.NoError(t, err)
			require.Equal(t, content, string(got))
		}, framework.OperationProgress{NCompleted: 10, NTotal: 20}},
		"unknown total": {nil, func(t *testing.T, run *operations.Run) {
			_, err := run.Writer(io.Discard, -1).Write([]byte(content))
			require.NoError(t, err)
		}, framework.OperationProgress{NCompleted: 10}},
		"several at a time": {nil, func(t *testing.T, run *operations.Run) {
			var copies sync.WaitGroup
			for range 8 {
				copies.Go(func() {
					if _, err := io.Copy(run.Writer(io.Discard, 80), strings.NewReader(content)); err != nil {
						t.Error(err)
					}
				})
			}
			copies.Wait()
		}, framework.OperationProgress{NCompleted: 80, NTotal: 80}},
		"resumed": {func(run *operations.Run) { run.Report(5, 20, "bytes", "resuming") },
			func(t *testing.T, run *operations.Run) {
				_, err := run.Writer(io.Discard, 20).Write([]byte(content))
				require.NoError(t, err)
			}, framework.OperationProgress{NCompleted: 15, NTotal: 20, Description: "resuming"}},
		"after other units": {func(run *operations.Run) { run.Report(1, 2, "volumes", "copying") },
			func(t *testing.T, run *operations.Run) {
				_, err := run.Writer(io.Discard, 20).Write([]byte(content))
				require.NoError(t, err)
			}, framework.OperationProgress{NCompleted: 10, NTotal: 20, Description: "copying"}},
		"failures": {nil, func(t *testing.T, run *operations.Run) {
			n, err := run.Writer(failing{4}, 20).Write([]byte(content))
			require.ErrorIs(t, err, errFailing)
			require.Equal(t, 4, n)
			n, err = run.Reader(failing{3}, 20).Read(make([]byte, 10))
			require.ErrorIs(t, err, errFailing)
			require.Equal(t, 3, n)
		}, framework.OperationProgress{NCompleted: 7, NTotal: 20}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				progress := progressAfter(t, func(run *operations.Run) {
					run.Report(0, 0, "", "")
					if test.before != nil {
						test.before(run)
					}
					test.copies(t, run)
				})
				test.want.Units = "bytes"
				test.want.Started, test.want.Updated = progress.Started, progress.Updated
				require.Equal(t, test.want, progress)
			})
		})
	}
}

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(buffer []byte) (int, error) { return len(buffer), nil }

func TestCancelEndsCopy(t *testing.T) {
	t.Parallel()
	for name, work := range map[string]operations.Work[volume]{
		"writer": func(_ context.Context, _ volume, run *operations.Run) error {
			_, err := io.Copy(run.Writer(io.Discard, 0), zeros{})
			return err
		},
		"reader": func(_ context.Context, _ volume, run *operations.Run) error {
			_, err := io.Copy(io.Discard, run.Reader(zeros{}, 0))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProcess(newResources(), work)
			id, err := p.Start(t.Context(), "k", volume{})
			require.NoError(t, err)
			require.Eventually(t, func() bool { return mustProgress(t, p, id).NCompleted > 0 }, 5*time.Minute, time.Millisecond)
			require.NoError(t, p.Cancel(t.Context(), id))
			p.Close() // waits for the work
			progress := mustProgress(t, p, id)
			require.True(t, progress.Completed)
			require.Equal(t, "the operation was cancelled", progress.Err)
		})
	}
}
