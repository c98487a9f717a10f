package volume

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBudgetBoundsLargeFilesOnly(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		budget *Budget
		size   int64
		most   int64 // of 16 files
	}{
		"little memory":   {NewBudget(64 << 20), 1 << 30, 1},
		"of two":          {NewBudget(MemoryOfKopia + 2*MemoryOfFile), 1 << 30, 2},
		"pieces of files": {NewBudget(MemoryOfKopia + 2*MemoryOfFile), largestPiece / 2, 4},
		"small files":     {NewBudget(128 << 20), 16 << 10, 16},
		"empty files":     {NewBudget(128 << 20), 0, 16},
		"no bound":        {nil, 1 << 30, 16},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var now, most atomic.Int64
				var all sync.WaitGroup
				for range 16 {
					all.Go(func() {
						release, err := test.budget.take(t.Context(), test.size)
						require.NoError(t, err)
						n := now.Add(1)
						for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
						}
						time.Sleep(time.Second)
						now.Add(-1)
						release()
					})
				}
				all.Wait()
				require.Equal(t, test.most, most.Load())
			})
		})
	}
	budget := NewBudget(0)
	release, err := budget.take(t.Context(), 1<<30)
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = budget.take(ended, 1<<30)
	require.ErrorIs(t, err, context.Canceled)
	release()
}
