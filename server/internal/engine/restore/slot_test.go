package restore

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWaitsShareTheirTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAllowance(time.Minute)
		began := time.Now()
		require.Equal(t, began.Add(time.Minute), a.begin())
		time.Sleep(20 * time.Second)
		require.Equal(t, began.Add(time.Minute), a.begin(), "what waits at the same time costs once")
		require.Equal(t, 40*time.Second, a.left())
		a.end()
		a.end()
		time.Sleep(time.Hour)
		require.Equal(t, 40*time.Second, a.left(), "what does not wait costs nothing")
		require.Equal(t, time.Now().Add(40*time.Second), a.begin())
		time.Sleep(41 * time.Second)
		a.end()
		require.True(t, a.begin().Before(time.Now()), "the next link of a chain gets none")
		a.end()

		a = newAllowance(time.Minute)
		a.useUp()
		require.Zero(t, a.left())
		require.False(t, a.begin().After(time.Now()))
	})
}

// oneSlot is a slot that a test gives back.
type oneSlot struct {
	left atomic.Int32
	back chan struct{}
}

func (s *oneSlot) Leave() { s.left.Add(1) }

func (s *oneSlot) Enter(ctx context.Context) error {
	select {
	case <-s.back:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func TestRestoreLeavesItsSlotOnlyWhileNothingIsAtWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		of := &oneSlot{back: make(chan struct{})}
		p := newPool(2, of)
		require.True(t, p.begin(t.Context()))
		require.True(t, p.begin(t.Context()))
		released, returned := make(chan struct{}), make(chan struct{})
		go func() {
			_ = p.park(t.Context(), func() error { <-released; return nil })
			close(returned)
		}()
		time.Sleep(time.Hour)
		require.Zero(t, of.left.Load(), "the other one is at work")
		p.end()
		time.Sleep(slotPatience - time.Millisecond)
		require.Zero(t, of.left.Load(), "not at once")
		time.Sleep(time.Second)
		require.EqualValues(t, 1, of.left.Load())

		close(released)
		synctest.Wait()
		select {
		case <-returned:
			require.Fail(t, "the item goes on without a slot")
		default:
		}
		of.back <- struct{}{}
		<-returned
		p.end()
		time.Sleep(time.Hour)
		require.EqualValues(t, 1, of.left.Load(), "nothing waits")
	})
}

func TestWebhookThatFailsIsAWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		of := &oneSlot{back: make(chan struct{})}
		e := &engine{pool: newPool(1, of), gates: newAllowance(time.Minute)}
		ctx, cancel := context.WithCancelCause(t.Context())
		require.True(t, e.pool.begin(ctx))
		_, over := e.gate(atWork(ctx))
		time.Sleep(2 * slotPatience)
		require.EqualValues(t, 1, of.left.Load())
		cancel(errors.New("cancelled"))
		over() // does not wait for a slot any more
		require.Equal(t, time.Minute-2*slotPatience, e.gates.left())
	})
}
