package operations_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/operations"
)

type volume struct {
	Name string `json:"name"`
}

// process is a runner as one process has it. Killed, its work goes on unseen: it reaches the store no more.
type process struct {
	*operations.Runner[volume]
	dead atomic.Bool
}

// begin starts a process on store.
func begin(store operations.Store, work operations.Work[volume], options ...operations.Option) *process {
	p := &process{}
	p.Runner = operations.NewRunner("example.io/mover", &mortal{Store: store, dead: &p.dead}, hclog.NewNullLogger(), work, options...)
	return p
}

// kill is kill -9: nothing that the process does reaches anybody any more.
func (p *process) kill() {
	p.dead.Store(true)
	go p.Close()
}

// mortal is a store that a killed process cannot use.
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

// until works until it is told the end, or its context has ended.
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

func mustBegin(t *testing.T, p *process, key string) string {
	t.Helper()
	id, err := p.Begin(t.Context(), key, volume{Name: key})
	require.NoError(t, err)
	synctest.Wait()
	return id
}

func TestAnOperationBeginsOnceAndEndsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		end := make(chan error)
		p := begin(newResources(), until(end))
		defer p.Close()
		began := time.Now()
		id := mustBegin(t, p, "k")
		require.Equal(t, operations.ID("example.io/mover", "k"), id)
		require.Equal(t, id, mustBegin(t, p, "k"))
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
		require.Equal(t, id, mustBegin(t, p, "k"), "one that has ended does not begin again")
		require.Equal(t, progress, mustProgress(t, p, id))
		acknowledged, err := p.Cancel(t.Context(), id)
		require.NoError(t, err)
		require.True(t, acknowledged)
		require.Equal(t, progress, mustProgress(t, p, id), "and cannot be cancelled")
	})
}

func TestHowTheWorkEndsIsHowTheOperationEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		work func() error
		want string
	}{
		"well":             {func() error { return nil }, ""},
		"badly":            {func() error { return errors.New("disk full") }, "disk full"},
		"without words":    {func() error { return errors.New("") }, "it failed without a message"},
		"with other bytes": {func() error { return errors.New("name \xff") }, "name \uFFFD"},
		"by a panic":       {func() error { panic("out of luck") }, "plugin panicked: out of luck"},
		"without a return": {func() error { runtime.Goexit(); return nil }, "the work's goroutine ended without returning"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := begin(newResources(), func(context.Context, volume, *operations.Run) error { return test.work() })
				defer p.Close()
				progress := mustProgress(t, p, mustBegin(t, p, "k"))
				require.True(t, progress.Completed)
				require.Equal(t, test.want, progress.Err)
			})
		})
	}
}

func TestWorkOutlivesTheCallThatBeganIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		end := make(chan error)
		p := begin(newResources(), until(end))
		defer p.Close()
		ctx, cancel := context.WithCancel(t.Context())
		id, err := p.Begin(ctx, "k", volume{})
		require.NoError(t, err)
		cancel()
		synctest.Wait()
		require.False(t, mustProgress(t, p, id).Completed)
		end <- nil
		synctest.Wait()
		require.True(t, mustProgress(t, p, id).Completed)
	})
}

func TestAnOperationIsCancelledFromAnyProcess(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]bool{"its own": false, "another": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newResources()
				mine, asked := begin(store, until(nil)), begin(store, until(nil))
				defer mine.Close()
				defer asked.Close()
				id := mustBegin(t, mine, "k")
				if !other {
					asked = mine
				}
				for range 2 {
					acknowledged, err := asked.Cancel(t.Context(), id)
					require.NoError(t, err)
					require.True(t, acknowledged)
				}
				time.Sleep(6 * time.Second) // a third of a lease, and a bit
				synctest.Wait()
				for _, p := range []*process{mine, asked} {
					progress := mustProgress(t, p, id)
					require.True(t, progress.Completed)
					require.Equal(t, "the operation was cancelled", progress.Err)
				}
			})
		})
	}
}

func TestWorkThatIsDoneInSpiteOfACancelIsDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := begin(newResources(), func(ctx context.Context, _ volume, _ *operations.Run) error {
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), operations.ErrCancelled) {
				return errors.New("the cause is not told")
			}
			return nil // it had just finished
		})
		defer p.Close()
		id := mustBegin(t, p, "k")
		_, err := p.Cancel(t.Context(), id)
		require.NoError(t, err)
		synctest.Wait()
		require.Empty(t, mustProgress(t, p, id).Err)
	})
}

func TestAfterAKillTheNextProcessGoesOnAsTheAuthorChose(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options []operations.Option
		cancel  bool
		want    string // how it ends; empty when it is resumed
	}{
		"fail":             {nil, false, "the process of the plugin that worked on the operation has ended"},
		"resume":           {[]operations.Option{operations.ResumeAfterRestart()}, false, ""},
		"cancelled before": {[]operations.Option{operations.ResumeAfterRestart()}, true, "the operation was cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store, end := newResources(), make(chan error)
				first := begin(store, until(nil), test.options...)
				id := mustBegin(t, first, "k")
				first.kill()
				second := begin(store, until(end), test.options...)
				defer second.Close()
				require.Equal(t, id, mustBegin(t, second, "k"), "the answer got lost, so it is asked again")
				if test.cancel {
					acknowledged, err := second.Cancel(t.Context(), id)
					require.NoError(t, err)
					require.True(t, acknowledged)
				}
				for range 4 { // the host asks every few seconds; for all that is known, the first process lives
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

func TestAProcessThatIsAliveIsLeftAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, end := newResources(), make(chan error)
		first, second := begin(store, until(end)), begin(store, until(nil))
		defer first.Close()
		defer second.Close()
		id := mustBegin(t, first, "k")
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

func TestAProcessThatWasSilentForTooLongStopsItsWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newResources()
		stopped := make(chan error, 1)
		first := begin(store, func(ctx context.Context, _ volume, _ *operations.Run) error {
			<-ctx.Done()
			stopped <- context.Cause(ctx)
			return nil
		}, operations.ResumeAfterRestart())
		second := begin(store, until(nil), operations.ResumeAfterRestart())
		defer second.Close()
		defer first.Close()
		id := mustBegin(t, first, "k")
		mustProgress(t, second, id)
		first.dead.Store(true) // as by SIGSTOP
		time.Sleep(16 * time.Second)
		require.False(t, mustProgress(t, second, id).Completed)
		first.dead.Store(false)
		require.ErrorContains(t, <-stopped, "not this process's any more")
		time.Sleep(6 * time.Second)
		require.Equal(t, "attempt 2", mustProgress(t, first, id).Description, "the first one tells what the second does")
	})
}

func TestACloseHandsOperationsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, end := newResources(), make(chan error)
		first := begin(store, until(nil), operations.ResumeAfterRestart())
		id := mustBegin(t, first, "k")
		first.Close()
		require.False(t, mustProgress(t, first, id).Completed)
		_, err := first.Begin(t.Context(), "l", volume{})
		require.ErrorContains(t, err, "the runner is closed")

		second := begin(store, until(end), operations.ResumeAfterRestart())
		defer second.Close()
		mustProgress(t, second, id)
		synctest.Wait()
		require.Equal(t, "attempt 2", mustProgress(t, second, id).Description, "at once")
	})
}

func TestAProcessWorksOnSoManyAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int32
		p := begin(newResources(), func(context.Context, volume, *operations.Run) error {
			now := running.Add(1)
			for before := most.Load(); now > before && !most.CompareAndSwap(before, now); before = most.Load() {
			}
			time.Sleep(time.Second)
			running.Add(-1)
			return nil
		}, operations.AtOnce(2))
		defer p.Close()
		ids := map[string]bool{}
		for i := range 6 {
			ids[mustBegin(t, p, fmt.Sprint(i))] = true
		}
		require.Len(t, ids, 6)
		waiting := 0
		for id := range ids {
			if mustProgress(t, p, id).Description == "waits for its turn" {
				waiting++
			}
		}
		require.GreaterOrEqual(t, waiting, 4)
		cancelled := mustBegin(t, p, "never")
		_, err := p.Cancel(t.Context(), cancelled)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, "the operation was cancelled", mustProgress(t, p, cancelled).Err, "while it waits")
		time.Sleep(10 * time.Second)
		for id := range ids {
			require.True(t, mustProgress(t, p, id).Completed)
		}
		require.EqualValues(t, 2, most.Load())
	})
}

func TestAStoreThatCannotBeUsed(t *testing.T) {
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
	t.Run("begins nothing", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			store := newResources()
			store.fault = only("create")
			p := begin(store, func(context.Context, volume, *operations.Run) error { t.Error("it works"); return nil })
			defer p.Close()
			_, err := p.Begin(t.Context(), "k", volume{})
			require.ErrorIs(t, err, full)
			synctest.Wait()
		})
	})
	t.Run("does not hide an end for ever", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			store, end := newResources(), make(chan error)
			p := begin(store, until(end))
			defer p.Close()
			id := mustBegin(t, p, "k")
			store.setFault(only("update"))
			end <- errors.New("cable cut")
			synctest.Wait()
			_, err := p.Progress(t.Context(), id)
			require.ErrorIs(t, err, full, "an end is told when it is kept: what has completed stays so")
			store.setFault(nil)
			time.Sleep(6 * time.Second)
			progress := mustProgress(t, p, id)
			require.True(t, progress.Completed)
			require.Equal(t, "cable cut", progress.Err)
		})
	})
	t.Run("does not keep an operation from being cancelled", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			store := newResources()
			p := begin(store, until(nil))
			defer p.Close()
			id := mustBegin(t, p, "k")
			store.setFault(only("update"))
			acknowledged, err := p.Cancel(t.Context(), id)
			require.NoError(t, err)
			require.True(t, acknowledged)
			store.setFault(nil)
			time.Sleep(6 * time.Second)
			require.Equal(t, "the operation was cancelled", mustProgress(t, p, id).Err)

			other := begin(store, until(nil))
			defer other.Close()
			id = mustBegin(t, p, "l")
			store.setFault(only("update"))
			acknowledged, err = other.Cancel(t.Context(), id)
			require.ErrorIs(t, err, full)
			require.False(t, acknowledged)
			store.setFault(only("get"))
			_, err = other.Cancel(t.Context(), id)
			require.ErrorIs(t, err, full)
			_, err = other.Progress(t.Context(), id)
			require.ErrorIs(t, err, full)
			store.setFault(nil)
		})
	})
}

func TestAStateThatIsLostIsAnOperationThatFailed(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]struct {
		lose func(store *resources, id string)
		want string
	}{
		"gone":    {func(store *resources, id string) { _ = store.Delete(context.Background(), id) }, "there is no such operation"},
		"garbage": {func(store *resources, id string) { store.set(id, []byte("\x00garbage")) }, "the state of the operation is damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newResources()
				stopped := make(chan struct{})
				p := begin(store, func(ctx context.Context, _ volume, _ *operations.Run) error {
					<-ctx.Done()
					close(stopped)
					return ctx.Err()
				})
				defer p.Close()
				id := mustBegin(t, p, "k")
				damage.lose(store, id)
				time.Sleep(6 * time.Second)
				<-stopped
				synctest.Wait()
				for _, p := range []*process{p, begin(store, until(nil))} {
					progress := mustProgress(t, p, id)
					require.True(t, progress.Completed)
					require.Contains(t, progress.Err, "the state of the operation is lost: ")
					require.Contains(t, progress.Err, damage.want)
					acknowledged, err := p.Cancel(t.Context(), id)
					require.NoError(t, err)
					require.True(t, acknowledged)
				}
				if name == "garbage" {
					_, err := p.Begin(t.Context(), "k", volume{})
					require.ErrorIs(t, err, operations.ErrDamaged)
				}
			})
		})
	}
}

func TestWhatIsNoOperationIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newResources()
		p := begin(store, until(nil))
		other := operations.NewRunner("example.io/other", store, hclog.NewNullLogger(), until(nil))
		defer p.Close()
		defer other.Close()
		theirs, err := other.Begin(t.Context(), "k", volume{})
		require.NoError(t, err)
		for _, id := range []string{"", "x", "../../etc/passwd", theirs} {
			_, err := p.Progress(t.Context(), id)
			require.Error(t, err, id)
			_, err = p.Cancel(t.Context(), id)
			require.Error(t, err, id)
		}
		_, err = p.Begin(t.Context(), "", volume{})
		require.ErrorContains(t, err, "the key is empty")
		unfit := operations.NewRunner("a", store, hclog.NewNullLogger(), func(context.Context, chan int, *operations.Run) error { return nil })
		_, err = unfit.Begin(t.Context(), "k", make(chan int))
		require.ErrorContains(t, err, "encode its input")
	})
}

func TestOperationsAreForgottenWhenNobodyNeedsThemAnyMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newResources()
		other := operations.NewRunner("example.io/other", store, hclog.NewNullLogger(),
			func(context.Context, volume, *operations.Run) error { return nil })
		defer other.Close()
		theirs, err := other.Begin(t.Context(), "k", volume{})
		require.NoError(t, err)
		p := begin(store, until(nil), operations.KeepFor(24*time.Hour))
		defer p.Close()
		ended, works := mustBegin(t, p, "ended"), mustBegin(t, p, "works")
		store.set(operations.ID("example.io/mover", "damaged"), []byte("garbage"))
		_, err = p.Cancel(t.Context(), ended)
		require.NoError(t, err)
		time.Sleep(23 * time.Hour)
		mustBegin(t, p, "later")
		require.True(t, store.has(ended))
		time.Sleep(2 * time.Hour)
		mustBegin(t, p, "still later")
		require.False(t, store.has(ended))
		require.True(t, store.has(works))
		require.True(t, store.has(theirs))
		require.True(t, store.has(operations.ID("example.io/mover", "damaged")), "for a look")
	})
}

func (r *resources) has(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, found := r.objects[id]
	return found
}

func (r *resources) set(id string, state []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version++
	r.objects[id] = resource{version: r.version, state: state}
}

// setFault has calls fail as fault says; nil has none fail.
func (r *resources) setFault(fault func(call, id string) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if fault == nil {
		fault = func(string, string) error { return nil }
	}
	r.fault = fault
}

func TestAReportIsFitToBeSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := begin(newResources(), func(ctx context.Context, _ volume, run *operations.Run) error {
			var reports sync.WaitGroup
			for range 4 {
				reports.Go(func() { run.Report(-1, -5, "\xff", "\xfe") })
			}
			reports.Wait()
			<-ctx.Done()
			return ctx.Err()
		})
		defer p.Close()
		progress := mustProgress(t, p, mustBegin(t, p, "k"))
		require.Zero(t, progress.NCompleted)
		require.Zero(t, progress.NTotal)
		require.Equal(t, "\uFFFD", progress.Units)
		require.Equal(t, "\uFFFD", progress.Description)
	})
}
