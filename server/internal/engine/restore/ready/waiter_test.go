package ready

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPluginIsAskedAboutFewItemsAtATime(t *testing.T) {
	t.Parallel()
	w := NewWaiter(time.Millisecond, time.Millisecond)
	var asking, most atomic.Int32
	release := make(chan struct{})
	slow := func(context.Context) (bool, error) {
		most.Store(max(most.Load(), asking.Add(1)))
		<-release
		asking.Add(-1)
		return true, nil
	}
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() { require.NoError(t, w.Wait(t.Context(), "slow", time.Hour, slow)) })
	}
	require.Eventually(t, func() bool { return asking.Load() == checksAtOnce }, 5*time.Minute, time.Millisecond)
	// Another plugin is not delayed, and neither is a limit.
	require.NoError(t, w.Wait(t.Context(), "quick", time.Hour, func(context.Context) (bool, error) { return true, nil }))
	require.ErrorIs(t, w.Wait(t.Context(), "slow", time.Millisecond, slow), ErrTimeout)
	close(release)
	group.Wait()
	require.EqualValues(t, checksAtOnce, most.Load())
}

func TestWaitEndsWithTheContext(t *testing.T) {
	t.Parallel()
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	asked := 0
	w := NewWaiter(time.Millisecond, time.Millisecond)
	err := w.Wait(ctx, "p", time.Hour, func(ctx context.Context) (bool, error) {
		if asked++; asked == 3 {
			cancel(stopped)
			return false, ctx.Err() // like an interrupted call
		}
		return false, nil
	})
	require.ErrorIs(t, err, stopped)
	require.Equal(t, 3, asked)
}

func TestLimitInterruptsACheck(t *testing.T) {
	t.Parallel()
	err := NewWaiter(time.Millisecond, time.Millisecond).Wait(t.Context(), "p", 10*time.Millisecond,
		func(ctx context.Context) (bool, error) {
			<-ctx.Done()
			return false, ctx.Err()
		})
	require.ErrorIs(t, err, ErrTimeout)
}

func TestWithoutALimitIsCheckedOnce(t *testing.T) {
	t.Parallel()
	w := NewWaiter(time.Hour, time.Hour)
	for want, ready := range map[error]bool{nil: true, ErrTimeout: false} {
		asked := 0
		err := w.Wait(t.Context(), "p", -time.Second, func(context.Context) (bool, error) { asked++; return ready, nil })
		require.ErrorIs(t, err, want)
		require.Equal(t, 1, asked)
	}
}
