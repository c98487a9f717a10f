package ready

import (
	"context"
	"errors"
	"sync"
	"time"
)

// checksAtOnce is the maximum number of checks of one kind at the same time. Velero asks a plugin about one item, so
// plugins made for it are not prepared for many.
const checksAtOnce = 4

// ErrTimeout is returned by Wait if the limit has passed.
var ErrTimeout = errors.New("not ready in time")

// Waiter waits for many items. It is safe for concurrent use.
type Waiter struct {
	first, interval time.Duration // pauses between two checks of one item

	mu    sync.Mutex
	turns map[string]chan struct{} // by what is asked
}

// NewWaiter returns a waiter that checks each item once in an interval, after shorter pauses that begin with first.
func NewWaiter(first, interval time.Duration) *Waiter {
	return &Waiter{first: first, interval: interval, turns: map[string]chan struct{}{}}
}

// Wait calls check until it returns true or an error, which Wait returns. After limit it returns ErrTimeout, and when
// ctx ends its cause. Without a limit above zero it calls check once. asked is what check asks, such as the name of a
// plugin.
func (w *Waiter) Wait(
	ctx context.Context, asked string, limit time.Duration, check func(context.Context) (bool, error),
) error {
	turn := w.turn(asked)
	if limit <= 0 {
		ready, err := inTurn(ctx, turn, check)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !ready && err == nil:
			return ErrTimeout
		}
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, ErrTimeout)
	defer cancel()
	for pause := w.first; ; pause = min(2*pause, w.interval) {
		ready, err := inTurn(ctx, turn, check)
		if ctx.Err() == nil && (ready || err != nil) {
			return err
		}
		select {
		case <-time.After(min(pause, w.interval)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// turn returns the semaphore of what is asked.
func (w *Waiter) turn(asked string) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.turns[asked] == nil {
		w.turns[asked] = make(chan struct{}, checksAtOnce)
	}
	return w.turns[asked]
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
