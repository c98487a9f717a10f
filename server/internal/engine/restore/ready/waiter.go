package ready

import (
	"context"
	"errors"
	"sync"
	"time"
)

// checksAtOnce is the maximum number of items about which one plugin is asked at the same time. Velero asks about one,
// so plugins made for it are not prepared for many.
const checksAtOnce = 4

// ErrTimeout is returned by Wait if the limit has passed.
var ErrTimeout = errors.New("not ready in time")

// Waiter waits for many items. It is safe for concurrent use.
type Waiter struct {
	interval time.Duration // between two checks of one item

	mu    sync.Mutex
	turns map[string]chan struct{} // of the plugins, by name
}

// NewWaiter returns a waiter that checks each item once in an interval.
func NewWaiter(interval time.Duration) *Waiter {
	return &Waiter{interval: interval, turns: map[string]chan struct{}{}}
}

// Wait calls check until it returns true or an error, which Wait returns. After limit it returns ErrTimeout, and when
// ctx ends its cause. plugin is the name of the plugin that check calls.
func (w *Waiter) Wait(
	ctx context.Context, plugin string, limit time.Duration, check func(context.Context) (bool, error),
) error {
	turn := w.turn(plugin)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, ErrTimeout)
	defer cancel()
	for {
		ready, err := inTurn(ctx, turn, check)
		if ctx.Err() == nil && (ready || err != nil) {
			return err
		}
		select {
		case <-time.After(w.interval):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// turn returns the semaphore of a plugin.
func (w *Waiter) turn(plugin string) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.turns[plugin] == nil {
		w.turns[plugin] = make(chan struct{}, checksAtOnce)
	}
	return w.turns[plugin]
}

// inTurn calls check when it is its turn.
func inTurn(ctx context.Context, turn chan struct{}, check func(context.Context) (bool, error)) (bool, error) {
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
		return check(ctx)
	case <-ctx.Done():
		return false, nil
	}
}
