package operation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
)

// endless returns actions whose operations do not end before they are cancelled. calls counts the polls and
// cancellations.
func endless() (plugins actions, calls func() (polls, cancels int)) {
	var mu sync.Mutex
	cancelled, polled := map[string]int{}, 0
	plugins = actions{
		progress: func(_ context.Context, _, id string) (framework.OperationProgress, error) {
			mu.Lock()
			defer mu.Unlock()
			polled++
			return framework.OperationProgress{NCompleted: 1, NTotal: 2, Completed: cancelled[id] > 0, Err: "stopped"}, nil
		},
		cancel: func(_ context.Context, _, id string) error {
			mu.Lock()
			defer mu.Unlock()
			cancelled[id]++
			return nil
		},
	}
	return plugins, func() (polls, cancels int) {
		mu.Lock()
		defer mu.Unlock()
		for _, n := range cancelled {
			cancels += n
		}
		return polled, cancels
	}
}

func ids(all []operation.Operation) []string {
	var ids []string
	for i := range all {
		ids = append(ids, all[i].ID)
	}
	return ids
}

func TestOperationsAreFollowedWhileTheirRunStartsMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plugins, calls := endless()
		m := run(t, plugins, operation.Options{Limits: func(action string) operation.Limits {
			return operation.Limits{Timeout: map[string]time.Duration{"a.io/short": 15 * time.Second}[action]}
		}})
		require.Empty(t, m.Groups())
		g := m.Begin(nightly(), nil, time.Hour)
		require.Nil(t, m.Group("u-1"), "nothing was started yet")
		short, long := newOperation("a.io/short", "op-1"), newOperation("a.io/copy", "op-2")
		g.Add(short)
		require.Same(t, g, m.Group("u-1"))
		time.Sleep(5 * time.Second)
		g.Add(long)
		g.Add(short)
		all, _ := g.Operations()
		require.Equal(t, []string{"op-2", "op-1"}, ids(all), "sorted, each once")
		require.Equal(t, operation.InProgress, all[1].Phase, "it is polled")
		require.Equal(t, operation.Counts{Attempted: 2}, g.Counts())
		time.Sleep(15 * time.Second)
		require.Equal(t, operation.Counts{Attempted: 2, Failed: 1}, g.Counts(), "its time is over")

		kept := g.Complete([]operation.Operation{short, long})
		require.Equal(t, []operation.Phase{operation.InProgress, operation.Failed},
			[]operation.Phase{kept[0].Phase, kept[1].Phase})
		require.Contains(t, kept[1].Error, "timed out after 15s")
		require.Same(t, g, m.Follow(nightly(), nil, 0))
		select {
		case <-g.Done():
			require.Fail(t, "one is open")
		default:
		}
		g.Cancel(errors.New("on request"))
		<-g.Done()
		_, cancels := calls()
		require.Equal(t, 2, cancels)
	})
}

func TestNobodyHurriesWhileTheRunGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plugins, calls := endless()
		m := run(t, plugins, operation.Options{})
		g, o := m.Begin(nightly(), nil, 0), newOperation("a.io/copy", "op-1")
		g.Add(o)
		time.Sleep(10 * time.Second)
		during, _ := calls()
		require.InDelta(t, 10, during, 2)
		g.Complete([]operation.Operation{o})
		time.Sleep(10 * time.Millisecond)
		after, _ := calls()
		require.Equal(t, during+1, after, "now its end is awaited")
	})
}

func TestCompleteLeavesWhatTheRunDidNotStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plugins, calls := endless()
		m := run(t, plugins, operation.Options{})
		ended := newOperation("a.io/copy", "op-3")
		ended.Phase = operation.Completed
		before := []operation.Operation{newOperation("a.io/copy", "op-1"), newOperation("a.io/copy", "op-2"), ended}
		g := m.Begin(nightly(), before, 0)
		time.Sleep(time.Second)
		again := newOperation("a.io/copy", "op-2")
		again.PostOperationItems = []framework.ResourceIdentifier{pvc("later")} // not recorded in a journal
		g.Add(again)
		kept := g.Complete([]operation.Operation{again})
		require.Equal(t, []string{"op-2"}, ids(kept))
		all, _ := g.Operations()
		require.Equal(t, kept, all)
		require.Equal(t, again.PostOperationItems, all[0].PostOperationItems)
		require.Equal(t, []string{"op-2"}, ids(all))
		require.Equal(t, operation.InProgress, all[0].Phase)
		g.Cancel(errors.New("on request"))
		<-g.Done()
		polls, cancels := calls()
		require.Equal(t, 1, cancels)
		time.Sleep(time.Hour)
		later, _ := calls()
		require.Equal(t, polls, later, "nothing is polled any more")
	})
}

func TestRunWithoutOperationsLeavesNoGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plugins, _ := endless()
		m := run(t, plugins, operation.Options{})
		g := m.Begin(nightly(), nil, 0)
		require.Empty(t, g.Complete(nil))
		<-g.Done()
		require.Empty(t, m.Groups())

		var none *operation.Monitor
		g = none.Begin(nightly(), nil, 0)
		g.Add(newOperation("a.io/copy", "op-1"))
		g.Cancel(errors.New("on request"))
		g.Forget()
		require.Zero(t, g.Counts())
		require.Equal(t, []string{"op-1"}, ids(g.Complete([]operation.Operation{newOperation("a.io/copy", "op-1")})))
	})
}

func TestOperationAddedAfterCancelIsCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plugins, calls := endless()
		m := run(t, plugins, operation.Options{})
		g := m.Begin(nightly(), nil, 0)
		g.Cancel(errors.New("on request"))
		g.Add(newOperation("a.io/copy", "op-1"))
		time.Sleep(time.Minute)
		require.Equal(t, operation.Counts{Attempted: 1, Failed: 1}, g.Counts())
		require.Contains(t, only(g).Error, "was cancelled: on request")
		_, cancels := calls()
		require.Equal(t, 1, cancels)
	})
}

func TestForgottenGroupFollowsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		plugins, calls := endless()
		m := run(t, plugins, operation.Options{})
		former := m.Begin(nightly(), nil, 0)
		former.Add(newOperation("a.io/copy", "op-1"))
		next := m.Begin(nightly(), []operation.Operation{newOperation("a.io/copy", "op-2")}, 0)
		former.Add(newOperation("a.io/copy", "op-3"))
		former.Forget()
		require.Same(t, next, m.Group("u-1"), "the next attempt has taken its place")
		next.Forget()
		require.Nil(t, m.Group("u-1"))
		next.Add(newOperation("a.io/copy", "op-4"))
		require.Nil(t, m.Group("u-1"))
		before, _ := calls()
		time.Sleep(time.Hour)
		after, cancels := calls()
		require.Equal(t, []int{before, 0}, []int{after, cancels})
	})
}

func TestManyAreAddedWhileOthersEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const many = 2000
		m := run(t, actions{progress: func(context.Context, string, string) (framework.OperationProgress, error) {
			return framework.OperationProgress{Completed: true}, nil
		}}, operation.Options{})
		g := m.Begin(nightly(), nil, 0)
		var all []operation.Operation
		for i := range many {
			all = append(all, newOperation(fmt.Sprintf("a.io/copy-%d", i%7), fmt.Sprint("op-", i)))
		}
		var adding sync.WaitGroup
		for part := range slices.Chunk(all, many/4) {
			adding.Go(func() {
				for _, o := range part {
					g.Add(o)
					time.Sleep(time.Millisecond)
				}
			})
		}
		adding.Wait()
		kept := g.Complete(all)
		require.True(t, slices.IsSortedFunc(kept, operation.Operation.Compare))
		require.Len(t, kept, many)
		<-g.Done()
		require.Equal(t, operation.Counts{Attempted: many, Completed: many}, g.Counts())
	})
}

func TestStallIsNotSeenBetweenTwoPolls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		m := run(t, actions{progress: func(context.Context, string, string) (framework.OperationProgress, error) {
			age := time.Since(began)
			return framework.OperationProgress{NCompleted: int64(age / time.Second), Completed: age > 10*time.Minute}, nil
		}}, operation.Options{Limits: func(string) operation.Limits { return operation.Limits{Stall: 5 * time.Second} }})
		g := m.Follow(nightly(), []operation.Operation{newOperation("a.io/copy", "op-1")}, 0)
		<-g.Done()
		require.Equal(t, operation.Completed, only(g).Phase, "it makes progress each second, and is polled often enough: %s",
			only(g).Error)
	})
}
