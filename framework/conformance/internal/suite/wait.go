package suite

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
)

// SlowCallers is the number of calls at the same time to a plugin whose calls are slow.
const SlowCallers = 64

// Each calls do with each number below n, and returns its first error. As long as a call takes less than
// Options.SlowCall, it makes one after the other; then it makes the others at the same time.
func (s *Suite) Each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	for i := range n {
		began := time.Now()
		if err := do(ctx, i); err != nil {
			return err
		}
		if time.Since(began) < s.SlowCall {
			continue
		}
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(SlowCallers)
		for i := range n - i - 1 {
			group.Go(func() error { return do(ctx, n-1-i) })
		}
		return group.Wait()
	}
	return nil
}

// Settled calls ask repeatedly after calls that the host has cancelled. The time at which the plugin notices the
// cancellation is not known, so their effect may show late. The pauses grow, and are at least as long as ask takes, up
// to a second. It asks at least twice.
func Settled(ctx context.Context, ask func() error) error {
	const enough = 600 * time.Millisecond
	began := time.Now()
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		asked := time.Now()
		if err := ask(); err != nil || pause > 10*time.Millisecond && time.Since(began) > enough {
			return err
		}
		if err := Sleep(ctx, max(pause, min(time.Since(asked), time.Second))); err != nil {
			return err
		}
	}
}

// Sleep waits for d, or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
