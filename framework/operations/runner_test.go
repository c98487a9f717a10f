package operations_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/operations"
)

type volume struct {
	Name string `json:"name"`
}

// process is the runner of one process. After kill its work goes on but cannot reach the store.
type process struct {
	*operations.Runner[volume]
	dead atomic.Bool
}

// begin starts a process on store.
func newProcess(store operations.Store, work operations.Work[volume], options ...operations.Option) *process {
	p := &process{}
	p.Runner = operations.NewRunner("example.io/mover", &mortal{Store: store, dead: &p.dead}, work, options...)
	return p
}

// kill ends the process as kill -9 does: nothing that it does has an effect any more.
func (p *process) kill() {
	p.dead.Store(true)
	go p.Close()
}

// mortal is the store of a process. Its writes fail after the process is killed.
type mortal struct {
	operations.Store
	dead *atomic.Bool
}

var errDead = errors.New("the process is dead")

func (m *mortal) Create(ctx context.Context, o *operations.Operation) error {
	if m.dead.Load() {
		return errDead
	}
	return m.Store.Create(ctx, o)
}

func (m *mortal) Update(ctx context.Context, o *operations.Operation) error {
	if m.dead.Load() {
		return errDead
	}
	return m.Store.Update(ctx, o)
}

// until returns work that lasts until it receives its result from end, or until its context ends.
func until(end <-chan error) operations.Work[volume] {
	return func(ctx context.Context, _ volume, run *operations.Run) error {
		run.Report(1, 3, "bytes", fmt.Sprintf("attempt %d", run.Attempt()))
		select {
		case err := <-end:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func mustProgress(t *testing.T, p *process, id string) framework.OperationProgress {
	t.Helper()
	progress, err := p.Progress(t.Context(), id)
	require.NoError(t, err)
	return progress
}

func mustStart(t *testing.T, p *process, key string) string {
	t.Helper()
	id, err := p.Start(t.Context(), key, volume{Name: key})
	require.NoError(t, err)
	synctest.Wait()
	return id
}

func TestOperationStartsOnceAndCompletesOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		end := make(chan error)
		p := newProcess(newResources(), until(end))
		defer p.Close()
		began := time.Now()
		id := mustStart(t, p, "k")
		require.Equal(t, operations.ID("example.io/mover", "k"), id)
		require.Equal(t, id, mustStart(t, p, "k"))
		progress := mustProgress(t, p, id)
		require.Equal(t, framework.OperationProgress{
			NCompleted: 1, NTotal: 3, Units: "bytes", Description: "attempt 1", Started: began.UTC(), Updated: began.UTC(),
		}, progress)

		time.Sleep(time.Hour)
		end <- nil
		synctest.Wait()
		progress = mustProgress(t, p, id)
		require.True(t, progress.Completed)
		require.Empty(t, progress.Err)
		require.Equal(t, time.Hour, progress.Updated.Sub(progress.Started))
		require.Equal(t, id, mustStart(t, p, "k"), "a completed operation must not start again")
		require.Equal(t, progress, mustProgress(t, p, id))
		require.NoError(t, p.Cancel(t.Context(), id))
		require.Equal(t, progress, mustProgress(t, p, id), "a completed operation cannot be cancelled")
	})
}

func TestResultOfWorkIsResultOfOperation(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		work func() error
		want string
	}{
		"success":         {func() error { return nil }, ""},
		"failure":         {func() error { return errors.New("disk full") }, "disk full"},
		"without message": {func() error { return errors.New("") }, "the work failed without a message"},
		"invalid UTF-8":   {func() error { return errors.New("name \xff") }, "name \uFFFD"},
		"panic":           {func() error { panic("out of luck") }, "plugin panicked: out of luck"},
		"no return": {func() error { runtime.Goexit(); return nil },
			"the goroutine of the work ended without returning"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newProcess(newResources(), func(context.Context, volume, *operations.Run) error { return test.work() })
				defer p.Close()
				progress := mustProgress(t, p, mustStart(t, p, "k"))
				require.True(t, progress.Completed)
				require.Equal(t, test.want, progress.Err)
			})
		})
	}
}

func TestWorkOutlivesCallThatStartedIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		end := make(chan error)
		p := newProcess(newResources(), until(end))
		defer p.Close()
		ctx, cancel := context.WithCancel(t.Context())
		id, err := p.Start(ctx, "k", volume{})
		require.NoError(t, err)
		cancel()
		synctest.Wait()
		require.False(t, mustProgress(t, p, id).Completed)
		end <- nil
		synctest.Wait()
		require.True(t, mustProgress(t, p, id).Completed)
	})
}

func TestCancelFromAnyProcess(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]bool{"its owner": false, "another": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newResources()
				owner, caller := newProcess(store, until(nil)), newProcess(store, until(nil))
				defer owner.Close()
				defer caller.Close()
				id := mustStart(t, owner, "k")
				if !other {
					caller = owner
				}
				for range 2 {
					require.NoError(t, caller.Cancel(t.Context(), id))
				}
				time.Sleep(6 * time.Second) // a heartbeat later
				synctest.Wait()
				for _, p := range []*process{owner, caller} {
					progress := mustProgress(t, p, id)
					require.True(t, progress.Completed)
					require.Equal(t, "the operation was cancelled", progress.Err)
				}
			})
		})
	}
}

func TestWorkMaySucceedAfterCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(newResources(), func(ctx context.Context, _ volume, _ *operations.Run) error {
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), operations.ErrCancelled) {
				return errors.New("the cause is not ErrCancelled")
			}
			return nil // it had just finished
		})
		defer p.Close()
		id := mustStart(t, p, "k")
		require.NoError(t, p.Cancel(t.Context(), id))
		synctest.Wait()
		require.Empty(t, mustProgress(t, p, id).Err)
	})
}

func TestNextProcessResumesOrFailsOperation(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options []operations.Option
		cancel  bool
		want    string // how it ends; empty when it is resumed
	}{
		"fail":             {nil, false, "the plugin process that worked on the operation has ended"},
		"resume":           {[]operations.Option{operations.WithResume()}, false, ""},
		"cancelled before": {[]operations.Option{operations.WithResume()}, true, "the operation was cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, end := newResources(), make(chan error)
				first := newProcess(store, until(nil), test.options...)
				id := mustStart(t, first, "k")
				first.kill()
				second := newProcess(store, until(end), test.options...)
				defer second.Close()
				require.Equal(t, id, mustStart(t, second, "k"), "the host repeats a call whose reply was lost")
				if test.cancel {
					require.NoError(t, second.Cancel(t.Context(), id))
				}
				for range 4 { // the lease of the first process has not expired
					progress := mustProgress(t, second, id)
					require.False(t, progress.Completed)
					time.Sleep(4 * time.Second)
				}
				progress := mustProgress(t, second, id)
				if test.want != "" {
					require.True(t, progress.Completed)
					require.Equal(t, test.want, progress.Err)
					return
				}
				require.False(t, progress.Completed)
				synctest.Wait()
				require.Equal(t, "attempt 2", mustProgress(t, second, id).Description)
				end <- nil
				synctest.Wait()
				require.True(t, mustProgress(t, second, id).Completed)
			})
		})
	}
}

func TestLiveProcessKeepsItsOperations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, end := newResources(), make(chan error)
		first, second := newProcess(store, until(end)), newProcess(store, until(nil))
		defer first.Close()
		defer second.Close()
		id := mustStart(t, first, "k")
		for range 100 {
			time.Sleep(7 * time.Second)
			require.False(t, mustProgress(t, second, id).Completed)
		}
		end <- nil
		synctest.Wait()
		require.True(t, mustProgress(t, second, id).Completed)
		require.Empty(t, mustProgress(t, second, id).Err)
	})
}

func TestSuspendedProcessStopsItsWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newResources()
		stopped := make(chan error, 1)
		first := newProcess(store, func(ctx context.Context, _ volume, _ *operations.Run) error {
			<-ctx.Done()
			stopped <- context.Cause(ctx)
			return nil
		}, operations.WithResume())
		second := newProcess(store, until(nil), operations.WithResume())
		defer second.Close()
		defer first.Close()
		id := mustStart(t, first, "k")
		mustProgress(t, second, id)
		first.dead.Store(true) // as if by SIGSTOP
		time.Sleep(16 * time.Second)
		require.False(t, mustProgress(t, second, id).Completed)
		first.dead.Store(false)
		require.ErrorContains(t, <-stopped, "this process no longer owns the operation")
		time.Sleep(6 * time.Second)
		require.Equal(t, "attempt 2", mustProgress(t, first, id).Description,
			"the first process reports the progress of the second")
	})
}

func TestCloseHandsOverOperations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, end := newResources(), make(chan error)
		first := newProcess(store, until(nil), operations.WithResume())
		id := mustStart(t, first, "k")
		first.Close()
		require.False(t, mustProgress(t, first, id).Completed)
		_, err := first.Start(t.Context(), "l", volume{})
		require.ErrorContains(t, err, "the runner is closed")

		second := newProcess(store, until(end), operations.WithResume())
		defer second.Close()
		mustProgress(t, second, id)
		synctest.Wait()
		require.Equal(t, "attempt 2", mustProgress(t, second, id).Description, "without waiting for the lease")
	})
}

// slow is a store on which every update takes a second.
type slow struct{ operations.Store }

func (s slow) Update(ctx context.Context, o *operations.Operation) error {
	time.Sleep(time.Second)
	return s.Store.Update(ctx, o)
}

func TestCloseStoresAllOperationsConcurrently(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProcess(slow{newResources()}, until(nil), operations.WithResume())
		for i := range 300 {
			mustStart(t, p, fmt.Sprint(i))
		}
		closed := time.Now()
		p.Close()
		require.Equal(t, time.Second, time.Since(closed))
	})
}

func TestConcurrencyLimitsWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int32
		p := newProcess(newResources(), func(context.Context, volume, *operations.Run) error {
			now := running.Add(1)
			for before := most.Load(); now > before && !most.CompareAndSwap(before, now); before = most.Load() {
			}
			time.Sleep(time.Second)
			running.Add(-1)
			return nil
		}, operations.WithConcurrency(2))
		defer p.Close()
		ids := map[string]bool{}
		for i := range 6 {
			ids[mustStart(t, p, fmt.Sprint(i))] = true
		}
		require.Len(t, ids, 6)
		waiting := 0
		for id := range ids {
			if mustProgress(t, p, id).Description == "waiting to run" {
				waiting++
			}
		}
		require.GreaterOrEqual(t, waiting, 4)
		cancelled := mustStart(t, p, "never")
		require.NoError(t, p.Cancel(t.Context(), cancelled))
		synctest.Wait()
		require.Equal(t, "the operation was cancelled", mustProgress(t, p, cancelled).Err, "cancelled while it waits")
		time.Sleep(10 * time.Second)
		for id := range ids {
			require.True(t, mustProgress(t, p, id).Completed)
		}
		require.EqualValues(t, 2, most.Load())
	})
}

func TestUnavailableStore(t *testing.T) {
	t.Parallel()
	full := errors.New("no space left")
	only := func(call string) func(string, string) error {
		return func(called, _ string) error {
			if called == call {
				return full
			}
			return nil
		}
	}
	t.Run("starts nothing", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			store := newResources()
			store.fault = only("create")
			p := newProcess(store, func(context.Context, volume, *operations.Run) error {
				t.Error("the work was called")
				return nil
			})
			defer p.Close()
			_, err := p.Start(t.Context(), "k", volume{})
			require.ErrorIs(t, err, full)
			synctest.Wait()
		})
	})
	t.Run("reports the result later", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			store, end := newResources(), make(chan error)
			p := newProcess(store, until(end))
			defer p.Close()
			id := mustStart(t, p, "k")
			store.setFault(only("update"))
			end <- errors.New("cable cut")
			synctest.Wait()
			_, err := p.Progress(t.Context(), id)
			require.ErrorIs(t, err, full, "a result must be stored before it is reported")
			store.setFault(nil)
			time.Sleep(6 * time.Second)
			progress := mustProgress(t, p, id)
			require.True(t, progress.Completed)
			require.Equal(t, "cable cut", progress.Err)
		})
	})
	t.Run("does not prevent cancellation", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			store := newResources()
			p := newProcess(store, until(nil))
			defer p.Close()
			id := mustStart(t, p, "k")
			store.setFault(only("update"))
			require.NoError(t, p.Cancel(t.Context(), id))
			store.setFault(nil)
			time.Sleep(6 * time.Second)
			require.Equal(t, "the operation was cancelled", mustProgress(t, p, id).Err)

			other := newProcess(store, until(nil))
			defer other.Close()
			id = mustStart(t, p, "l")
			store.setFault(only("update"))
			require.ErrorIs(t, other.Cancel(t.Context(), id), full)
			store.setFault(only("get"))
			require.ErrorIs(t, other.Cancel(t.Context(), id), full)
			_, err := other.Progress(t.Context(), id)
			require.ErrorIs(t, err, full)
			store.setFault(nil)
		})
	})
}

func TestLostStateFailsOperation(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]struct {
		lose func(store *resources, id string)
		want string
	}{
		"missing": {func(store *resources, id string) { _ = store.Delete(context.Background(), id) },
			"there is no such operation"},
		"garbage": {func(store *resources, id string) { store.set(id, []byte("\x00garbage")) },
			"the state of the operation is damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newResources()
				stopped := make(chan struct{})
				p := newProcess(store, func(ctx context.Context, _ volume, _ *operations.Run) error {
					<-ctx.Done()
					close(stopped)
					return ctx.Err()
				})
				defer p.Close()
				id := mustStart(t, p, "k")
				damage.lose(store, id)
				time.Sleep(6 * time.Second)
				<-stopped
				synctest.Wait()
				for _, p := range []*process{p, newProcess(store, until(nil))} {
					progress := mustProgress(t, p, id)
					require.True(t, progress.Completed)
					require.Contains(t, progress.Err, "the state of the operation is lost: ")
					require.Contains(t, progress.Err, damage.want)
					require.NoError(t, p.Cancel(t.Context(), id))
				}
				if name == "garbage" {
					_, err := p.Start(t.Context(), "k", volume{})
					require.ErrorIs(t, err, operations.ErrDamaged)
				}
			})
		})
	}
}

func TestUnknownOperationIsError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newResources()
		p := newProcess(store, until(nil))
		other := operations.NewRunner("example.io/other", store, until(nil))
		defer p.Close()
		defer other.Close()
		theirs, err := other.Start(t.Context(), "k", volume{})
		require.NoError(t, err)
		for _, id := range []string{"", "x", "../../etc/passwd", theirs} {
			_, err := p.Progress(t.Context(), id)
			require.Error(t, err, id)
			err = p.Cancel(t.Context(), id)
			require.Error(t, err, id)
		}
		_, err = p.Start(t.Context(), "", volume{})
		require.ErrorContains(t, err, "the key is empty")
		unencodable := operations.NewRunner("a", store, func(context.Context, chan int, *operations.Run) error { return nil })
		_, err = unencodable.Start(t.Context(), "k", make(chan int))
		require.ErrorContains(t, err, "encode its input")
	})
}

func TestOldOperationsAreDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newResources()
		other := operations.NewRunner("example.io/other", store,
			func(context.Context, volume, *operations.Run) error { return nil })
		defer other.Close()
		theirs, err := other.Start(t.Context(), "k", volume{})
		require.NoError(t, err)
		p := newProcess(store, until(nil), operations.WithRetention(24*time.Hour))
		defer p.Close()
		ended, running := mustStart(t, p, "ended"), mustStart(t, p, "running")
		store.set(operations.ID("example.io/mover", "damaged"), []byte("garbage"))
		require.NoError(t, p.Cancel(t.Context(), ended))
		time.Sleep(23 * time.Hour)
		mustStart(t, p, "later")
		require.True(t, store.has(ended))
		time.Sleep(2 * time.Hour)
		mustStart(t, p, "still later")
		require.False(t, store.has(ended))
		require.True(t, store.has(running))
		require.True(t, store.has(theirs))
		require.True(t, store.has(operations.ID("example.io/mover", "damaged")), "damaged operations must be kept")
	})
}
