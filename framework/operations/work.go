package operations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/cleat-dev/cleat/framework"
)

// launch starts the work on an operation that this runner owns.
func (r *Runner[In]) launch(ctx context.Context, operation *Operation, input In) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	run := &Run{
		id: operation.ID, attempt: operation.Attempt, progress: operation.Progress,
		log: framework.Log(ctx).With("operation", operation.ID), cancel: cancel, ended: ctx.Err,
	}
	r.mu.Lock()
	r.runs[run.id] = run
	delete(r.seen, run.id)
	if r.closed {
		cancel(errClosed)
	}
	r.active.Add(1) // before Close waits, which takes the lock
	r.mu.Unlock()

	done := make(chan error, 1)
	go func() {
		err := errors.New("the goroutine of the work ended without returning")
		defer func() { done <- err }()
		err = r.perform(ctx, input, run)
	}()
	// This goroutine stores the state of the operation. Others only request its cancellation or take it over.
	stored := *operation
	go func() {
		defer r.active.Done()
		defer cancel(nil)
		r.keep(ctx, &stored, run, done)
		run.setOver()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.runs[run.id] == run {
			delete(r.runs, run.id)
		}
	}()
}

// perform waits for a free slot and does the work.
func (r *Runner[In]) perform(ctx context.Context, input In, run *Run) (err error) {
	if r.slots != nil {
		select {
		case r.slots <- struct{}{}:
			defer func() { <-r.slots }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	defer func() {
		if value := recover(); value != nil {
			run.log.Error("the work panicked", "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
			err = fmt.Errorf("plugin panicked: %v", value)
		}
	}()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return r.work(ctx, input, run)
}

// keep stores a heartbeat and the progress of an operation at intervals until the work has returned, and then its
// result. It returns when the result is stored, or when this process no longer owns the operation and the work has
// returned.
func (r *Runner[In]) keep(ctx context.Context, operation *Operation, run *Run, done <-chan error) {
	heartbeats := time.NewTicker(max(r.lease/3, time.Millisecond))
	defer heartbeats.Stop()
	var result error
	returned := false
	for {
		select {
		case result = <-done:
			returned, done = true, nil
		case <-heartbeats.C:
		}
		cause := context.Cause(ctx)
		if errors.Is(cause, errLost) {
			run.setOver()
			if returned {
				return
			}
			continue
		}
		abandoned := returned && result != nil && errors.Is(cause, errClosed)
		err := r.update(context.WithoutCancel(ctx), operation, run, func(next *Operation) {
			next.Heartbeat++
			next.Progress = run.touch()
			switch {
			case abandoned:
				next.Owner = ""
			case returned:
				complete(next, resultOf(result, cause))
			}
		})
		switch {
		case errors.Is(err, errLost), errors.Is(err, ErrNotFound), errors.Is(err, ErrDamaged):
			run.log.Error("this process no longer owns the operation; cancelled its work", "error", err)
			run.setOver()
			run.cancel(errLost)
			if returned {
				return
			}
		case err != nil:
			run.log.Warn("could not store the state of the operation", "error", err)
			if returned {
				run.setUnsaved(fmt.Errorf("the work has ended, but its result could not be stored yet: %w", err))
			}
			if returned && r.isClosed() {
				return // another process takes the operation over when the lease has expired
			}
		case returned:
			return
		}
	}
}

// resultOf returns the error with which an operation failed whose work returned result and whose context ended with
// cause.
func resultOf(result, cause error) error {
	if errors.Is(cause, ErrCancelled) && errors.Is(result, context.Canceled) {
		return ErrCancelled
	}
	return result
}

// complete marks an operation as completed: as failed with err, or as successful if that is nil.
func complete(operation *Operation, err error) {
	operation.Owner = ""
	operation.Progress.Completed = true
	operation.Progress.Updated = time.Now().UTC()
	if err != nil {
		operation.Progress.Err = cmp.Or(validText(err.Error()), "the work failed without a message")
	}
}

// update changes the stored state of an operation that this runner owns. If another process has changed it meanwhile,
// update applies the change to the newer state; it returns errLost if that has another owner.
func (r *Runner[In]) update(ctx context.Context, operation *Operation, run *Run, change func(*Operation)) error {
	for {
		next := *operation
		change(&next)
		err := r.store.Update(ctx, &next)
		if err == nil {
			*operation = next
			return nil
		}
		if !errors.Is(err, ErrConflict) {
			return err
		}
		current, err := r.store.Get(ctx, operation.ID)
		if err != nil {
			return err
		}
		if current.Owner != r.owner || current.Attempt != operation.Attempt {
			return errLost
		}
		if current.CancelRequested {
			run.cancel(ErrCancelled)
		}
		*operation = *current
	}
}
