// Package storetest tests implementations of operations.Store. A store's test calls Run:
//
//	func TestMyStore(t *testing.T) {
//		cluster := startCluster(t)
//		storetest.Run(t, func() operations.Store { return newStore(cluster) })
//	}
package storetest

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/operations"
)

// Run tests that the stores that open returns keep the contract of operations.Store. open is called several times, as
// if by several processes; all its stores must hold the same operations, none at first.
func Run(t *testing.T, open func() operations.Store) {
	t.Helper()
	t.Run("sequential", func(t *testing.T) { testSequential(t, open) }) //nolint:paralleltest // the stores are the same
	t.Run("concurrent", func(t *testing.T) { testConcurrent(t, open) }) //nolint:paralleltest // the stores are the same
}

// operation returns a new operation with the given key.
func operation(key string) *operations.Operation {
	return &operations.Operation{
		ID: operations.ID("test", key), Runner: "test", Key: key, Input: []byte(`{"a":1}`), Owner: "me", Attempt: 1,
		Progress: framework.OperationProgress{NCompleted: 1, NTotal: 2, Units: "bytes", Description: "copying"},
	}
}

func testSequential(t *testing.T, open func() operations.Store) {
	t.Helper()
	ctx := t.Context()
	store := open()
	a := operation("a")
	_, err := store.Get(ctx, a.ID)
	require.ErrorIs(t, err, operations.ErrNotFound)
	require.ErrorIs(t, store.Update(ctx, a), operations.ErrNotFound)
	require.NoError(t, store.Delete(ctx, a.ID))

	require.NoError(t, store.Create(ctx, a))
	require.NotEmpty(t, a.Version)
	require.ErrorIs(t, store.Create(ctx, operation("a")), operations.ErrExists)
	got, err := open().Get(ctx, a.ID)
	require.NoError(t, err)
	require.Equal(t, a, got)

	stale := *a
	a.CancelRequested, a.Progress.NCompleted = true, 2
	require.NoError(t, store.Update(ctx, a))
	require.NotEqual(t, stale.Version, a.Version)
	require.ErrorIs(t, open().Update(ctx, &stale), operations.ErrConflict)
	got, err = open().Get(ctx, a.ID)
	require.NoError(t, err)
	require.Equal(t, a, got)

	require.NoError(t, store.Create(ctx, operation("b")))
	ids, err := open().List(ctx)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{a.ID, operation("b").ID}, ids)
	require.NoError(t, store.Delete(ctx, a.ID))
	require.ErrorIs(t, store.Update(ctx, a), operations.ErrNotFound)
	ids, err = open().List(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{operation("b").ID}, ids)
}

// testConcurrent lets callers create one operation at the same time, and then increment a number in it.
func testConcurrent(t *testing.T, open func() operations.Store) {
	t.Helper()
	const callers, increments = 8, 5
	var wait sync.WaitGroup
	created := make(chan struct{}, callers)
	for range callers {
		store := open()
		wait.Go(func() {
			switch err := store.Create(t.Context(), operation("c")); {
			case err == nil:
				created <- struct{}{}
			case !errors.Is(err, operations.ErrExists):
				t.Error(err)
			}
			for done := 0; done < increments; {
				o, err := store.Get(t.Context(), operation("c").ID)
				if err == nil {
					o.Heartbeat++
					err = store.Update(t.Context(), o)
				}
				if err == nil {
					done++
				} else if !errors.Is(err, operations.ErrConflict) {
					t.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	require.Len(t, created, 1)
	got, err := open().Get(t.Context(), operation("c").ID)
	require.NoError(t, err)
	require.EqualValues(t, callers*increments, got.Heartbeat, "updates were lost")
}
