package operations_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDirServesCallersFairly lets 32 callers change one operation as fast as they can, and counts the calls that each
// of them has completed when all have completed 960. A fair store completes 30 calls of each. Callers of operations of
// their own share no lock: how many calls each of them completes is the scheduler's choice.
func TestDirServesCallersFairly(t *testing.T) {
	t.Parallel()
	const callers, total, least = 32, 960, 5
	for name, sameDir := range map[string]bool{ //nolint:paralleltest // the cases would compete
		"in one process":       true,
		"in several processes": false,
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			shared := openDir(t, path)
			var calls atomic.Int64
			served := make([]int, callers)
			start := make(chan struct{})
			var wait sync.WaitGroup
			require.NoError(t, shared.Create(t.Context(), operation("k")))
			for i := range callers {
				dir, o := shared, operation("k")
				if !sameDir {
					dir = openDir(t, path)
				}
				wait.Go(func() {
					<-start
					for calls.Add(1) <= total {
						err := dir.Update(t.Context(), o)
						if err != nil {
							o, err = dir.Get(t.Context(), o.ID)
						}
						if err != nil {
							t.Error(err)
							return
						}
						served[i]++
					}
				})
			}
			close(start)
			wait.Wait()
			require.GreaterOrEqual(t, slices.Min(served), least, "calls completed by each caller: %v", served)
		})
	}
}
