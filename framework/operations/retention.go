package operations

import (
	"context"
	"errors"
	"time"

	"github.com/cleat-dev/cleat/framework"
)

// sweep deletes operations that are older than the retention, at most once an hour.
func (r *Runner[In]) sweep(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || time.Since(r.swept) < time.Hour {
		return
	}
	r.swept = time.Now()
	r.active.Go(func() {
		if err := r.deleteBefore(context.WithoutCancel(ctx), time.Now().Add(-r.keepFor)); err != nil {
			framework.Log(ctx).Warn("could not delete old operations", "error", err)
		}
	})
}

// deleteBefore deletes the operations of this runner that were updated last before the given time. It keeps damaged
// operations, so that they can be inspected.
func (r *Runner[In]) deleteBefore(ctx context.Context, before time.Time) error {
	ids, err := r.store.List(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		operation, err := r.get(ctx, id)
		if errors.Is(err, ErrNotFound) || errors.Is(err, ErrDamaged) || errors.Is(err, errForeign) {
			continue
		}
		if err != nil {
			return err
		}
		if r.run(id) != nil || !operation.Progress.Updated.Before(before) {
			continue
		}
		if err := r.store.Delete(ctx, id); err != nil {
			return err
		}
		r.forgetOwner(id)
	}
	return nil
}
