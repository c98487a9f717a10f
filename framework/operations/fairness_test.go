package operations_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDirServesCallersFairly lets 32 callers change operations as fast as they can, and counts the calls that each of
// them has completed when all have completed 960. A fair store completes 30 calls of each.
func TestDirServesCallersFairly(t *testing.T) {
	t.Parallel()
	const callers, total, least = 32, 960, 5
	for name, test := range map[string]struct{ sameOperation, sameDir bool }{ //nolint:paralleltest // the cases would compete
		"operations of their own in one process":       {false, true},
		"operations of their own in several processes": {false, false},
		"one operation in one process":                 {true, true},
		"one operation in several processes":           {true, false},
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			shared := openDir(t, path)
			var calls atomic.Int64
			served := make([]int, callers)
			start := make(chan struct{})
			var wait sync.WaitGroup
			for i := range callers {
				dir, key := shared, "k"
				if !test.sameDir {
					dir = openDir(t, path)
				}
				if !test.sameOperation {
					key = fmt.Sprint(i)
				}
				o := operation(key)
				if i == 0 || !test.sameOperation {
					require.NoError(t, dir.Create(t.Context(), o))
				}
				wait.Go(func() {
					<-start
					for calls.Add(1) <= total {
						err := dir.Update(t.Context(), o)
						if test.sameOperation && err != nil {
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
