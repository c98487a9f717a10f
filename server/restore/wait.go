package restore

import (
	"context"
	"time"
)

// firstPause is the first pause between two reads of an object that is expected to change soon.
const firstPause = 50 * time.Millisecond

// sleep waits for d or the end of ctx, whose cause it returns.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
