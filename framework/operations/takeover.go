package operations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cleat-dev/cleat/framework"
)

// sighting is a heartbeat of an operation's owner that this process has seen.
type sighting struct {
	owner     string
	heartbeat int64
	at        time.Time // when this process saw it first
}

// ownerIsAlive reports whether a process works on an operation. The clocks of two machines are not compared: an owner
// is alive unless this process has watched it for a lease and seen no new heartbeat.
func (r *Runner[In]) ownerIsAlive(operation *Operation) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return true // a closed runner takes nothing over
	}
	if operation.Owner == "" {
		return false
	}
	seen := r.seen[operation.ID]
	if seen.owner != operation.Owner || seen.heartbeat != operation.Heartbeat {
		seen = sighting{owner: operation.Owner, heartbeat: operation.Heartbeat, at: time.Now()}
		r.seen[operation.ID] = seen
	}
	return time.Since(seen.at) < r.lease
}

// forgetOwner drops the heartbeats of an operation that has completed or is deleted.
func (r *Runner[In]) forgetOwner(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seen, id)
}

// takeOver resumes an operation that no process works on, or completes it if it cannot or may not be resumed. If
// several processes try, one succeeds and the others return the progress that it has stored.
func (r *Runner[In]) takeOver(ctx context.Context, operation *Operation) (framework.OperationProgress, error) {
	input, err := decodeInput[In](operation.Input)
	switch {
	case operation.CancelRequested:
		complete(operation, ErrCancelled)
	case !r.resume:
		complete(operation, errors.New("the plugin process that worked on the operation has ended"))
	case err != nil:
		complete(operation, err)
	default:
		operation.Owner = r.owner
		operation.Heartbeat++
		operation.Attempt++
		operation.Progress.Updated = time.Now().UTC()
	}
	err = r.store.Update(ctx, operation)
	if errors.Is(err, ErrConflict) {
		if operation, err = r.get(ctx, operation.ID); err == nil {
			return operation.Progress, nil
		}
	}
	if err != nil {
		return framework.OperationProgress{}, fmt.Errorf("take over an operation whose process has ended: %w", err)
	}
	framework.Log(ctx).Warn("took over an operation whose process has ended",
		"operation", operation.ID, "attempt", operation.Attempt, "completed", operation.Progress.Completed)
	if !operation.Progress.Completed {
		r.launch(ctx, operation, input)
	}
	return operation.Progress, nil
}
