package operations

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestTurnsFollowOrderOfCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var all turns
		leave, err := all.enter(t.Context(), "a")
		require.NoError(t, err)
		const callers = 32
		var order []int
		for i := range callers {
			go func() {
				leave, err := all.enter(t.Context(), "a")
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i) // only the caller whose turn it is
				leave()
			}()
			synctest.Wait()
		}
		quitter, cancel := context.WithCancel(t.Context())
		quit := make(chan error, 1)
		go func() {
			_, err := all.enter(quitter, "a")
			quit <- err
		}()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-quit, context.Canceled)
		other, err := all.enter(t.Context(), "b")
		require.NoError(t, err, "another operation does not wait")
		other()

		require.Empty(t, order)
		leave()
		synctest.Wait()
		want := make([]int, callers)
		for i := range want {
			want[i] = i
		}
		require.Equal(t, fmt.Sprint(want), fmt.Sprint(order))
		require.Empty(t, all.queues)
	})
}
