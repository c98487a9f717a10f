package restores

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestRestoresThatGoOnComeBeforeThoseThatBegin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slots := NewSlots(1)
		first, err := slots.take(t.Context())
		require.NoError(t, err)
		first.Leave() // it waits
		second, err := slots.take(t.Context())
		require.NoError(t, err)

		var order []string
		enter := func(ctx context.Context, name string, enter func(context.Context) error) {
			go func() {
				if err := enter(ctx); err != nil {
					name += ": " + err.Error()
				}
				order = append(order, name)
			}()
			synctest.Wait()
		}
		third := &slot{of: slots}
		gone, cancel := context.WithCancel(t.Context())
		enter(gone, "cancelled", func(ctx context.Context) error { _, err := slots.take(ctx); return err })
		enter(t.Context(), "third", func(ctx context.Context) error { return third.enter(ctx, &slots.next) })
		enter(t.Context(), "first", first.Enter)
		require.Empty(t, order)
		cancel()
		synctest.Wait()
		second.Leave()
		second.Leave() // holds none any more
		synctest.Wait()
		require.Equal(t, []string{"cancelled: context canceled", "first"}, order)
		first.Leave()
		synctest.Wait()
		require.Equal(t, "third", order[2])
		third.Leave()
		require.Equal(t, 1, slots.free)
	})
}
