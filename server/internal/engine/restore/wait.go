package restore

import (
	"context"
	"time"
)

// firstPause is the first pause between two reads of an object that is expected to change soon.
const firstPause = 50 * time.Millisecond

// pause parks the item for d or until the end of ctx, whose cause it returns. It is called in loops, so it does not try
// the patience of others.
func (e *engine) pause(ctx context.Context, d time.Duration) error {
	passTurn(ctx)
	return e.pool.park(ctx, func() error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(d):
			return nil
		}
	})
}
