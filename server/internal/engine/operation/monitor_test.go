package operation_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/versioning"
)

// actions are fake plugins.
type actions struct {
	progress func(ctx context.Context, action, id string) (framework.OperationProgress, error)
	cancel   func(ctx context.Context, action, id string) error
	atOnce   func(action string) int // nil: none
	declared operation.Limits
	many     func(ctx context.Context, owner *operation.Owner, action string,
		ids []string) (map[string]framework.OperationProgress, error)
}

// Progress implements operation.Plugins.
func (a actions) Progress(
	ctx context.Context, _ *operation.Owner, action, id string,
) (framework.OperationProgress, error) {
	return a.progress(ctx, action, id)
}

// Cancel implements operation.Plugins.
func (a actions) Cancel(ctx context.Context, _ *operation.Owner, action, id string) error {
	return a.cancel(ctx, action, id)
}

// Declared implements operation.Plugins.
func (a actions) Declared(*operation.Owner, string) operation.Limits { return a.declared }

// AtOnce implements operation.Plugins.
func (a actions) AtOnce(_ *operation.Owner, action string) int {
	if a.atOnce == nil {
		return 0
	}
	return a.atOnce(action)
}

// ProgressOfMany implements operation.Plugins.
func (a actions) ProgressOfMany(
	ctx context.Context, owner *operation.Owner, action string, ids []string,
) (map[string]framework.OperationProgress, error) {
	return a.many(ctx, owner, action, ids)
}

func TestConfiguredLimitsComeBeforeThoseOfTheAuthor(t *testing.T) {
	t.Parallel()
	const minute, hour = time.Minute, time.Hour
	for name, test := range map[string]struct {
		configured, declared operation.Limits
		own                  time.Duration // of the backup
		timedOut, stalled    time.Duration // after which it ends; 0 if it does not
	}{
		"none":             {},
		"of the author":    {declared: operation.Limits{Timeout: hour}, timedOut: hour},
		"without progress": {declared: operation.Limits{Timeout: hour, Stall: minute}, stalled: minute},
		"configured": {configured: operation.Limits{Timeout: 2 * hour},
			declared: operation.Limits{Timeout: hour}, timedOut: 2 * hour},
		"configured, no progress": {configured: operation.Limits{Stall: 2 * minute},
			declared: operation.Limits{Stall: minute}, stalled: 2 * minute},
		"lifted": {configured: operation.Limits{Timeout: -1, Stall: -1},
			declared: operation.Limits{Timeout: hour, Stall: minute}},
		"lifted, but not the backup": {configured: operation.Limits{Timeout: -1}, declared: operation.Limits{Timeout: hour},
			own: 3 * hour, timedOut: 3 * hour},
		"of the backup":             {declared: operation.Limits{Timeout: hour}, own: minute, timedOut: minute},
		"beyond that of the backup": {declared: operation.Limits{Timeout: hour}, own: 3 * hour, timedOut: hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				plugins, _ := endless()
				plugins.declared = test.declared
				m := run(t, plugins, operation.Options{Limits: func(string) operation.Limits { return test.configured }})
				g := m.Begin(nightly(), nil, test.own)
				g.Add(newOperation("a.io/copy", "op-1"))
				began := time.Now()
				g.Complete([]operation.Operation{only(g)})
				select {
				case <-g.Done():
				case <-time.After(24 * time.Hour):
				}
				limit := max(test.timedOut, test.stalled)
				if limit == 0 {
					require.Equal(t, operation.InProgress, only(g).Phase)
					return
				}
				require.InDelta(t, limit.Seconds(), time.Since(began).Seconds(), 15)
				why := "timed out after " + limit.String()
				if test.stalled > 0 {
					why = "made no progress for " + limit.String()
				}
				require.Contains(t, only(g).Error, why)
			})
		})
	}
}

func TestLastLinesOfFailedOperationsAreKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reported sync.Map
		m := run(t, actions{
			progress: func(_ context.Context, _, id string) (framework.OperationProgress, error) {
				p, _ := reported.Load(id)
				return p.(framework.OperationProgress), nil
			},
		}, operation.Options{})
		var all []operation.Operation
		for _, id := range []string{"failed", "done", "open"} {
			all = append(all, newOperation("a.io/copy", id))
			reported.Store(id, framework.OperationProgress{LastLines: "reading " + id})
		}
		g := m.Follow(nightly(), all, 0)
		time.Sleep(time.Minute)
		before := g.Revision()
		reported.Store("failed", framework.OperationProgress{Completed: true, Err: "disk full"})
		reported.Store("done", framework.OperationProgress{Completed: true, LastLines: "all is read"})
		time.Sleep(time.Minute)
		require.Greater(t, g.Revision().Changes, before.Changes)
		lines, stored := map[string]string{}, map[string]string{}
		now, _ := g.Operations()
		read, err := operation.NewFile(nightly(), now).Operations(nightly())
		require.NoError(t, err)
		for i := range now {
			lines[now[i].ID], stored[read[i].ID] = now[i].LastLines, read[i].LastLines
		}
		require.Equal(t, map[string]string{"failed": "reading failed", "done": "", "open": "reading open"}, lines,
			"no lines are no news")
		require.Equal(t, map[string]string{"failed": "reading failed", "done": "", "open": ""}, stored)
	})
}

// run returns a running monitor.
func run(t *testing.T, plugins operation.Plugins, options operation.Options) *operation.Monitor {
	t.Helper()
	if options.Log == nil {
		options.Log = hclog.NewNullLogger()
	}
	m, err := operation.NewMonitor(plugins, options)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	return m
}

func newOperation(action, id string) operation.Operation {
	return operation.Operation{Action: action, ID: id, Item: pvc(id), Created: time.Now(),
		Status: operation.Status{Phase: operation.New}}
}

func only(g *operation.Group) operation.Operation {
	all, _ := g.Operations()
	return all[0]
}

func TestOperationEnds(t *testing.T) {
	t.Parallel()
	type progress = framework.OperationProgress
	working := func(done int64) progress {
		return progress{NCompleted: done, NTotal: 10, Units: "bytes", Description: "copying", Started: second(1),
			Updated: second(2)}
	}
	away := errors.New("plugin is gone")
	for what, test := range map[string]struct {
		progress func(age time.Duration) (progress, error)
		cancel   func(attempt int) error
		limits   operation.Limits
		timeout  time.Duration
		by       time.Duration // Group.Cancel is called, never if 0

		phase    operation.Phase
		text     string
		after    time.Duration
		accurate time.Duration // of after
		outcome  string
		cancels  int
	}{
		"completed": {
			progress: func(age time.Duration) (progress, error) {
				p := working(9)
				p.Completed = age >= 7*time.Second
				return p, nil
			},
			phase: operation.Completed, after: 7 * time.Second, accurate: 400 * time.Millisecond, outcome: "completed",
		},
		"with an error": {
			progress: func(time.Duration) (progress, error) { return progress{Completed: true, Err: "disk full"}, nil },
			phase:    operation.Failed, text: "disk full", accurate: 0, outcome: "failed",
		},
		"with a long error": {
			progress: func(time.Duration) (progress, error) {
				return progress{Completed: true, Err: strings.Repeat("x", 10_000)}, nil
			},
			phase: operation.Failed, text: strings.Repeat("x", 4096) + "...", outcome: "failed",
		},
		"not known": {
			progress: func(age time.Duration) (progress, error) {
				if age > time.Second {
					return progress{}, fmt.Errorf("no operation op-1: %w", versioning.ErrNotFound)
				}
				return working(1), nil
			},
			phase: operation.Failed, after: time.Second, accurate: 150 * time.Millisecond, outcome: "unknown",
			text: "it is not known to the plugin any more, so its result is unknown: no operation op-1: not found",
		},
		"errors are asked again": {
			progress: func(age time.Duration) (progress, error) {
				if age < time.Minute {
					return progress{}, away
				}
				return progress{Completed: true}, nil
			},
			phase: operation.Completed, after: time.Minute, accurate: 5 * time.Second, outcome: "completed",
		},
		"timed out, then cancelled": {
			progress: func(age time.Duration) (progress, error) {
				p := working(min(int64(age/time.Second), 5))
				if age > 61*time.Second {
					p.Completed, p.Err = true, "cancelled"
				}
				return p, nil
			},
			timeout: time.Minute, phase: operation.Failed, after: 61 * time.Second, accurate: time.Second, outcome: "timed-out",
			cancels: 1,
			text: "timed out after 1m0s; it had done 5 of 10 bytes, and nothing new for 56s; it then ended with the error: " +
				"cancelled",
		},
		"timed out, and completed after all": {
			progress: func(age time.Duration) (progress, error) {
				p := working(5)
				p.Completed = age > 61*time.Second
				return p, nil
			},
			timeout: time.Minute, phase: operation.Completed, after: 61 * time.Second, accurate: time.Second,
			outcome: "completed", cancels: 1,
		},
		"ceiling of the action": {
			progress: func(time.Duration) (progress, error) { return progress{}, nil },
			timeout:  time.Hour, limits: operation.Limits{Timeout: time.Minute, Grace: 10 * time.Second},
			phase: operation.Failed, after: 70 * time.Second, accurate: time.Second, outcome: "timed-out", cancels: 1,
			text: "timed out after 1m0s and did not end within 10s after it was cancelled, so it was given up and may go on; " +
				"it has reported no progress, and nothing new for 1m10s",
		},
		"stalled": {
			progress: func(age time.Duration) (progress, error) {
				p := working(0)
				// A heartbeat is not progress.
				p.NTotal, p.NCompleted, p.Updated = 0, min(int64(age/time.Second), 30), second(int(age/time.Second))
				return p, nil
			},
			timeout: time.Hour, limits: operation.Limits{Timeout: 2 * time.Hour, Stall: time.Minute, Grace: 10 * time.Second},
			phase: operation.Failed, after: 100 * time.Second, accurate: 3 * time.Second, outcome: "stalled", cancels: 1,
			text: "made no progress for 1m0s and did not end within 10s after it was cancelled, so it was given up and may go " +
				"on; " +
				"it had done 30 bytes, and nothing new for 1m10s",
		},
		"stalls while the plugin is gone": {
			progress: func(time.Duration) (progress, error) { return progress{}, away },
			cancel:   func(int) error { return away },
			limits:   operation.Limits{Stall: time.Minute, Grace: 10 * time.Second},
			phase:    operation.Failed, after: 70 * time.Second, accurate: time.Second, outcome: "stalled", cancels: -1,
			text: "made no progress for 1m0s and could not be cancelled within 10s, so it was given up and may go on; " +
				"it has reported no progress, and nothing new for 1m10s; the last error: plugin is gone",
		},
		"cancel fails at first": {
			progress: func(age time.Duration) (progress, error) {
				return progress{Completed: age > 62*time.Second, Err: "cancelled"}, nil
			},
			cancel: func(attempt int) error {
				if attempt < 3 {
					return away
				}
				return nil
			},
			timeout: time.Minute, phase: operation.Failed, after: 62 * time.Second, accurate: time.Second, outcome: "timed-out",
			cancels: 3,
			text: "timed out after 1m0s; it has reported no progress, and nothing new for 1m2s; it then ended with the error: " +
				"cancelled",
		},
		"cannot be cancelled": {
			progress: func(time.Duration) (progress, error) { return working(3), nil },
			cancel:   func(int) error { return fmt.Errorf("action: %w", versioning.ErrNotCancelled) },
			timeout:  time.Minute, phase: operation.Failed, after: time.Minute, accurate: time.Second, outcome: "timed-out",
			cancels: 1,
			text: "timed out after 1m0s, but the plugin cannot stop it, so it was given up and may go on; it had done 3 of 10 " +
				"bytes, and nothing new for 1m0s",
		},
		"not known when it is cancelled": {
			progress: func(time.Duration) (progress, error) { return progress{}, away },
			cancel:   func(int) error { return versioning.ErrNotFound },
			timeout:  time.Minute, phase: operation.Failed, after: time.Minute, accurate: time.Second, outcome: "unknown",
			cancels: 1,
			text:    "it is not known to the plugin any more, so its result is unknown: not found",
		},
		"cancelled by a user": {
			progress: func(age time.Duration) (progress, error) {
				return progress{Completed: age > 6*time.Second, Err: "stopped"}, nil
			},
			by: 5 * time.Second, timeout: 5500 * time.Millisecond,
			phase: operation.Failed, after: 6 * time.Second, accurate: 200 * time.Millisecond, outcome: "cancelled", cancels: 1,
			text: "was cancelled: the backup is deleted; it has reported no progress, and nothing new for 6s; it then ended " +
				"with the error: stopped",
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var cancels int
				var ended []time.Duration
				metrics := prometheus.NewRegistry()
				m := run(t, actions{
					progress: func(_ context.Context, action, id string) (progress, error) {
						require.Equal(t, "a.io/copy op-1", action+" "+id)
						return test.progress(time.Since(began))
					},
					cancel: func(context.Context, string, string) error {
						cancels++
						if test.cancel == nil {
							return nil
						}
						return test.cancel(cancels)
					},
				}, operation.Options{
					Limits:  func(string) operation.Limits { return test.limits },
					Ended:   func(*operation.Owner) { ended = append(ended, time.Since(began)) },
					Metrics: metrics,
				})
				g := m.Follow(nightly(), []operation.Operation{newOperation("a.io/copy", "op-1")}, test.timeout)
				if test.by > 0 {
					time.Sleep(test.by)
					g.Cancel(errors.New("the backup is deleted"))
					g.Cancel(errors.New("again"))
				}
				<-g.Done()
				after := time.Since(began)
				synctest.Wait()
				o, revision := only(g), g.Revision()
				require.Equal(t, test.phase, o.Phase)
				require.Equal(t, test.text, o.Error)
				require.InDelta(t, test.after.Seconds(), after.Seconds(), test.accurate.Seconds())
				if test.cancels < 0 {
					require.Positive(t, cancels)
				} else {
					require.Equal(t, test.cancels, cancels)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				require.Equal(t, o, only(g), "an ended operation stays as it is")
				require.Equal(t, revision, g.Revision())
				require.EqualValues(t, 1, revision.Ends)
				require.Equal(t, []time.Duration{after}, ended)
				families, err := metrics.Gather()
				require.NoError(t, err)
				for _, family := range families {
					require.NotContains(t, family.GetName(), "open", "none is open")
					if family.GetName() == "cleat_operation_duration_seconds" {
						require.Len(t, family.GetMetric(), 1)
						require.Equal(t, test.outcome, family.GetMetric()[0].GetLabel()[0].GetValue())
					}
				}
			})
		})
	}
}

func TestProgressIsKeptAsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reported atomic.Value
		reported.Store(framework.OperationProgress{})
		m := run(t, actions{progress: func(context.Context, string, string) (framework.OperationProgress, error) {
			return reported.Load().(framework.OperationProgress), nil
		}}, operation.Options{})
		g := m.Follow(nightly(), []operation.Operation{newOperation("a.io/copy", "op-1")}, 0)
		time.Sleep(time.Minute)
		require.Equal(t, operation.New, only(g).Phase, "nothing has begun")
		require.Equal(t, operation.Revision{}, g.Revision())
		for i, p := range []framework.OperationProgress{
			{NCompleted: 5, NTotal: 10, Units: "bytes", Description: "half", Started: second(1), Updated: second(2)},
			{NCompleted: 50, NTotal: 10, Units: "bytes", Description: "too much", Started: second(1), Updated: second(3)},
			{NCompleted: 1, NTotal: 10, Units: "bytes", Description: "backwards", Started: second(1), Updated: second(1)},
			{NCompleted: -3, NTotal: math.MinInt64, Units: "bytes", Description: "nothing is left", Started: second(2),
				Updated: second(1)},
			{},
		} {
			reported.Store(p)
			time.Sleep(time.Minute)
			require.Equal(t, operation.Status{
				Phase: operation.InProgress, NCompleted: p.NCompleted, NTotal: p.NTotal, Units: p.Units, Description: p.Description,
				Started: p.Started, Updated: p.Updated,
			}, only(g).Status)
			require.Equal(t, operation.Revision{Changes: uint64(i + 1)}, g.Revision())
		}
	})
}

func TestPaceFollowsAge(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		frequency time.Duration
		age       time.Duration // when it is followed
		within    time.Duration
		least     int
		most      int
	}{
		"new":               {10 * time.Second, 0, 2 * time.Second, 20, 23},
		"a minute old":      {10 * time.Second, time.Minute, 30 * time.Second, 7, 12},
		"old":               {10 * time.Second, 24 * time.Hour, 10 * time.Minute, 60, 66},
		"from the future":   {10 * time.Second, -24 * time.Hour, 2 * time.Second, 20, 23},
		"at another pace":   {time.Minute, 24 * time.Hour, 10 * time.Minute, 10, 12},
		"at a quicker pace": {time.Second, 24 * time.Hour, time.Minute, 60, 66},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var polls []time.Time
				m := run(t, actions{progress: func(context.Context, string, string) (framework.OperationProgress, error) {
					polls = append(polls, time.Now())
					return framework.OperationProgress{}, nil
				}}, operation.Options{Frequency: test.frequency})
				began := time.Now()
				o := newOperation("a.io/copy", "op-1")
				o.Created = began.Add(-test.age)
				m.Follow(nightly(), []operation.Operation{o}, 0)
				time.Sleep(test.within)
				synctest.Wait()
				require.Equal(t, began, polls[0], "the first at once")
				require.GreaterOrEqual(t, len(polls), test.least)
				require.LessOrEqual(t, len(polls), test.most)
				for i := range polls[1:] {
					require.LessOrEqual(t, polls[i+1].Sub(polls[i]), test.frequency, "never slower than that")
				}
			})
		})
	}
}

func TestSlowActionDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		calls, most := map[string]int{}, map[string]int{}
		m := run(t, actions{
			progress: func(ctx context.Context, action, _ string) (framework.OperationProgress, error) {
				mu.Lock()
				calls[action]++
				most[action] = max(most[action], calls[action])
				mu.Unlock()
				defer func() { mu.Lock(); calls[action]--; mu.Unlock() }()
				if action == "hangs" {
					<-ctx.Done()
					return framework.OperationProgress{}, context.Cause(ctx)
				}
				time.Sleep(time.Millisecond)
				return framework.OperationProgress{Completed: true}, nil
			},
			cancel: func(ctx context.Context, _, _ string) error { <-ctx.Done(); return context.Cause(ctx) },
		}, operation.Options{})
		var operations []operation.Operation
		for i := range 100 {
			operations = append(operations, newOperation("hangs", fmt.Sprint(i)), newOperation("works", fmt.Sprint(i)))
		}
		began := time.Now()
		g := m.Follow(nightly(), operations, time.Hour)
		time.Sleep(time.Second)
		require.EqualValues(t, 100, g.Revision().Ends)
		require.Equal(t, 4, most["hangs"])
		<-g.Done()
		require.InDelta(t, (time.Hour + time.Minute).Seconds(), time.Since(began).Seconds(), 1,
			"they end although no call is answered")
		all, _ := g.Operations()
		require.Contains(t, all[0].Error, "timed out after 1h0m0s and could not be cancelled within 1m0s")
		require.Equal(t, 4, most["hangs"])
	})
}

func TestManyAreAskedForInOneCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		many, alone := map[string]int{}, map[string]int{} // calls by id
		refused := true
		m := run(t, actions{
			atOnce: func(string) int { return 8 },
			many: func(_ context.Context, owner *operation.Owner, action string,
				ids []string) (map[string]framework.OperationProgress, error) {
				mu.Lock()
				defer mu.Unlock()
				require.LessOrEqual(t, len(ids), 8)
				require.GreaterOrEqual(t, len(ids), 2)
				require.Equal(t, "works", action)
				if refused {
					refused = false
					return nil, errors.New("the process has died")
				}
				answers := map[string]framework.OperationProgress{"of nobody": {Completed: true}}
				for _, id := range ids {
					require.True(t, strings.HasPrefix(id, owner.Name+"-"), "%s of %s", id, owner.Name)
					many[id]++
					if !strings.HasSuffix(id, "-7") || many[id]+alone[id] == 9 {
						answers[id] = framework.OperationProgress{NCompleted: 1, Completed: many[id]+alone[id] == 9}
					}
				}
				return answers, nil
			},
			progress: func(_ context.Context, _, id string) (framework.OperationProgress, error) {
				mu.Lock()
				defer mu.Unlock()
				alone[id]++
				return framework.OperationProgress{NCompleted: 2, Completed: many[id]+alone[id] == 9}, nil
			},
		}, operation.Options{})
		for _, name := range []string{"a", "b"} {
			var operations []operation.Operation
			for i := range 40 {
				o := newOperation("works", fmt.Sprint(name, "-", i))
				o.Created = time.Now().Add(-time.Hour)
				operations = append(operations, o)
			}
			owner := *nightly()
			owner.Name, owner.UID = name, types.UID(name)
			<-m.Follow(&owner, operations, 0).Done()
		}
		calls := 0
		for id, n := range many {
			calls += n
			require.Equal(t, 9, n+alone[id], id)
			if strings.HasSuffix(id, "-7") {
				require.GreaterOrEqual(t, alone[id], n-1, "it is asked for alone after each call that does not answer for it")
			}
		}
		require.Greater(t, calls, 80*9/2, "most are asked for together")
	})
}

func TestOldOperationIsAskedBeforeItIsCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := run(t, actions{progress: func(context.Context, string, string) (framework.OperationProgress, error) {
			time.Sleep(10 * time.Second)
			return framework.OperationProgress{Completed: true}, nil
		}}, operation.Options{})
		o := newOperation("a.io/copy", "op-1")
		o.Created = time.Now().Add(-24 * time.Hour)
		g := m.Follow(nightly(), []operation.Operation{o}, time.Hour)
		<-g.Done()
		require.Equal(t, operation.Completed, only(g).Phase, "it has completed while the server was away")
	})
}

func TestGroupIsTheSameUntilItIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var polls atomic.Int64
		m := run(t, actions{progress: func(context.Context, string, string) (framework.OperationProgress, error) {
			polls.Add(1)
			return framework.OperationProgress{}, nil
		}}, operation.Options{})
		require.Nil(t, m.Group("u-1"))
		ended := newOperation("a.io/copy", "op-0")
		ended.Phase, ended.Error = operation.Failed, "before"
		g := m.Follow(nightly(), []operation.Operation{newOperation("a.io/copy", "op-1"), ended}, 0)
		require.Same(t, g, m.Follow(nightly(), nil, 0))
		require.Same(t, g, m.Group("u-1"))
		require.Equal(t, "before", only(g).Error)
		time.Sleep(time.Second)
		require.Positive(t, polls.Load())

		m.Forget("u-1")
		m.Forget("u-1")
		require.Nil(t, m.Group("u-1"))
		before := polls.Load()
		g.Cancel(errors.New("too late"))
		time.Sleep(time.Hour)
		require.Equal(t, before, polls.Load())
		again := m.Follow(nightly(), []operation.Operation{ended}, 0)
		require.NotSame(t, g, again)
		<-again.Done() // nothing is open
	})
}

func TestErrorsArePutInTheLogOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var failure atomic.Value
		failure.Store(errors.New("first"))
		m := run(t, actions{progress: func(context.Context, string, string) (framework.OperationProgress, error) {
			return framework.OperationProgress{}, failure.Load().(error)
		}}, operation.Options{Log: hclog.New(&hclog.LoggerOptions{Output: &log})})
		var operations []operation.Operation
		for i := range 50 {
			operations = append(operations, newOperation("a.io/copy", fmt.Sprint(i)))
		}
		m.Follow(nightly(), operations, 0)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, 1, strings.Count(log.String(), "error=first"), log.String())
		failure.Store(errors.New("second"))
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, 1, strings.Count(log.String(), "error=second"))
		require.Equal(t, 1, strings.Count(log.String(), "error=first"))
	})
}

// TestEveryOperationEndsOnce lets actions behave at random.
func TestEveryOperationEndsOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { checkModel(t, rand.New(rand.NewPCG(seed, 2))) })
		})
	}
}

func checkModel(t *testing.T, random *rand.Rand) {
	var mu sync.Mutex // guards all below
	chance := func(n int) bool { return random.IntN(n) == 0 }
	calls := map[string]int{}     // in flight, by action
	confirmed := map[string]int{} // of Cancel, by operation
	over := map[string]bool{}     // the last answer ended the operation
	ends := 0
	enter := func(action, id string) func() {
		mu.Lock()
		calls[action]++
		require.LessOrEqual(t, calls[action], 4)
		require.False(t, over[id], "%s has ended", id)
		pause := time.Duration(random.IntN(5)) * time.Second
		mu.Unlock()
		time.Sleep(pause)
		mu.Lock()
		return func() { calls[action]--; mu.Unlock() }
	}
	answer := func(id string) (p framework.OperationProgress) {
		require.False(t, over[id], "%s has ended", id)
		p.NCompleted, p.NTotal = random.Int64N(10), random.Int64N(10)
		p.Completed = chance(30) || confirmed[id] > 0 && chance(3)
		if chance(2) {
			p.Err = "broken"
		}
		over[id] = p.Completed
		return p
	}
	m := run(t, actions{
		atOnce: func(action string) int { return map[string]int{"action-1": 3, "action-2": 64}[action] },
		many: func(ctx context.Context, _ *operation.Owner, action string,
			ids []string) (map[string]framework.OperationProgress, error) {
			defer enter(action, ids[0])()
			if chance(10) {
				return nil, errors.New("away")
			}
			answers := map[string]framework.OperationProgress{}
			for _, id := range ids {
				if !chance(5) && ctx.Err() == nil {
					answers[id] = answer(id)
				}
			}
			return answers, nil
		},
		progress: func(_ context.Context, action, id string) (p framework.OperationProgress, err error) {
			defer enter(action, id)()
			switch {
			case chance(5):
				return p, errors.New("away")
			case chance(100):
				over[id] = true
				return p, versioning.ErrNotFound
			}
			return answer(id), nil
		},
		cancel: func(_ context.Context, action, id string) error {
			defer enter(action, id)()
			switch {
			case chance(3):
				return errors.New("away")
			case chance(10):
				over[id] = true
				return versioning.ErrNotCancelled
			}
			confirmed[id]++
			require.Equal(t, 1, confirmed[id], "%s was cancelled twice", id)
			return nil
		},
	}, operation.Options{
		Limits: func(string) operation.Limits {
			return operation.Limits{Stall: 5 * time.Minute, Grace: 30 * time.Second}
		},
		Ended: func(*operation.Owner) { mu.Lock(); defer mu.Unlock(); ends++ },
	})
	var groups []*operation.Group
	const each, owners = 40, 4
	for n := range owners {
		var operations []operation.Operation
		for i := range each {
			operations = append(operations, newOperation(fmt.Sprint("action-", i%3), fmt.Sprint(n, "-", i)))
		}
		owner := *nightly()
		owner.UID = types.UID(fmt.Sprint("u-", n))
		owner.Name = fmt.Sprint(n)
		groups = append(groups, m.Follow(&owner, operations, 20*time.Minute))
		time.Sleep(time.Minute)
		if n == 2 {
			groups[1].Cancel(errors.New("not wanted"))
		}
	}
	for _, g := range groups {
		<-g.Done()
		all, revision := g.Operations()
		require.EqualValues(t, len(all), revision.Ends)
		for _, o := range all {
			require.True(t, o.Phase.Ended())
			require.Equal(t, o.Phase == operation.Failed, o.Error != "")
		}
	}
	time.Sleep(time.Hour)
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, each*owners, ends)
}

// TestClockJumps follows operations whose recorded times are from a clock that was set since.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		jump time.Duration
		ends time.Duration // when the timeout of two hours is over
	}{
		"an hour forward":   {time.Hour, time.Hour},
		"an hour back":      {-time.Hour, 2 * time.Hour},
		"ten years forward": {10 * 365 * 24 * time.Hour, time.Second}, // it is polled before
		"ten years back":    {-10 * 365 * 24 * time.Hour, 2 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var last time.Time
				cancelled := false
				began := time.Now()
				m := run(t, actions{
					progress: func(context.Context, string, string) (framework.OperationProgress, error) {
						mu.Lock()
						defer mu.Unlock()
						if !last.IsZero() && !cancelled {
							require.LessOrEqual(t, time.Since(last), 10*time.Second)
						}
						last = time.Now()
						return framework.OperationProgress{NCompleted: int64(time.Since(began)), Completed: cancelled}, nil
					},
					cancel: func(context.Context, string, string) error {
						mu.Lock()
						defer mu.Unlock()
						require.False(t, last.IsZero(), "it is asked first")
						cancelled = true
						return nil
					},
				}, operation.Options{Limits: func(string) operation.Limits { return operation.Limits{Stall: time.Minute} }})
				o := newOperation("a.io/copy", "op-1")
				o.Created, o.Updated = began.Add(-test.jump), began.Add(-test.jump)
				g := m.Follow(nightly(), []operation.Operation{o}, 2*time.Hour)
				<-g.Done()
				require.InDelta(t, test.ends.Seconds(), time.Since(began).Seconds(), 11)
				require.Equal(t, operation.Completed, only(g).Phase)
			})
		})
	}
}
