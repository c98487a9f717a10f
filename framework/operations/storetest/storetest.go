// Package storetest is the contract of operations.Store as a test, for whoever writes a store:
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

// Run tests stores that keep the same operations, none at first. open makes one as another process has it; it is called a
// few times.
func Run(t *testing.T, open func() operations.Store) {
	t.Helper()
	t.Run("what is kept is found", func(t *testing.T) { testKept(t, open) }) //nolint:paralleltest // the stores are the same
	t.Run("at once", func(t *testing.T) { testAtOnce(t, open) })             //nolint:paralleltest // the stores are the same
}

// operation is one that was begun under key.
func operation(key string) *operations.Operation {
	return &operations.Operation{
		ID: operations.ID("test", key), Runner: "test", Key: key, Input: []byte(`{"a":1}`), Owner: "me", Attempt: 1,
		Progress: framework.OperationProgress{NCompleted: 1, NTotal: 2, Units: "bytes", Description: "copies"},
	}
}

func testKept(t *testing.T, open func() operations.Store) {
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
	a.CancelAsked, a.Progress.NCompleted = true, 2
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

// testAtOnce has many callers create one operation, and then count in it.
func testAtOnce(t *testing.T, open func() operations.Store) {
	t.Helper()
	const callers, each = 8, 5
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
			for counted := 0; counted < each; {
				o, err := store.Get(t.Context(), operation("c").ID)
				if err == nil {
					o.Beat++
					err = store.Update(t.Context(), o)
				}
				if err == nil {
					counted++
				} else if !errors.Is(err, operations.ErrConflict) {
					t.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	require.Len(t, created, 1)
	counted, err := open().Get(t.Context(), operation("c").ID)
	require.NoError(t, err)
	require.EqualValues(t, callers*each, counted.Beat, "no change is lost")
}
