package operations

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cleat-dev/cleat/framework"
)

// ErrCancelled is the cause (context.Cause) with which a work's context ends when the host has cancelled the operation.
var ErrCancelled = errors.New("the operation was cancelled")

var (
	// errLost is the cause when another process works on the operation, or its state is lost.
	errLost = errors.New("this process no longer owns the operation")
	// errForeign is returned for an operation of a runner with another name.
	errForeign = errors.New("a runner serves its own operations only")
	// errClosed is the cause when the runner is closed.
	errClosed = errors.New("the runner is closed")
)

// Work does the work of one operation. input is not shared with other calls. The operation fails with the error that
// Work returns, and succeeds if that is nil. ctx ends when the operation is cancelled and when this process may not
// work on it any more; Work should return then.
type Work[In any] func(ctx context.Context, input In, run *Run) error

// Runner does work inside the plugin's process and reports its progress to the host. Several processes may have a
// runner of the same name on the same store: one of them works on an operation, and each can report its progress and
// cancel it.
//
// In is the input of the work. It is stored as JSON, so that another process can resume the operation.
type Runner[In any] struct {
	name  string
	store Store
	work  Work[In]
	settings
	owner string // identifies this runner among all that use the store or ever did

	mu     sync.Mutex
	closed bool
	runs   map[string]*Run
	seen   map[string]sighting
	swept  time.Time
	active sync.WaitGroup // counts all goroutines of the runner
}

// NewRunner returns a runner. name distinguishes it from other runners on the same store; the plugin's name will do. A
// runner of a plugin lasts as long as the process. Tests call Close. The runner logs to framework.Log of the call that
// it serves.
func NewRunner[In any](name string, store Store, work Work[In], options ...Option) *Runner[In] {
	r := &Runner[In]{
		name: name, store: store, work: work,
		settings: settings{lease: 15 * time.Second, keepFor: 7 * 24 * time.Hour},
		owner:    rand.Text(),
		runs:     map[string]*Run{},
		seen:     map[string]sighting{},
	}
	for _, option := range options {
		option(&r.settings)
	}
	return r
}

// Start starts an operation and returns its id. If any process has started one under the same key before, Start only
// returns the id, even if that operation has completed. The work goes on when ctx ends.
func (r *Runner[In]) Start(ctx context.Context, key string, input In) (id string, err error) {
	if key == "" {
		return "", errors.New("start an operation: the key is empty")
	}
	raw, err := json.Marshal(input)
	if err != nil {
		return "", fmt.Errorf("start an operation: encode its input: %w", err)
	}
	// The work gets the same input as in a process that resumes it.
	if input, err = decodeInput[In](raw); err != nil {
		return "", fmt.Errorf("start an operation: %w", err)
	}
	if r.isClosed() {
		return "", fmt.Errorf("start an operation: %w", errClosed)
	}
	now := time.Now().UTC()
	operation := &Operation{
		ID: ID(r.name, key), Runner: r.name, Key: key, Input: raw, Owner: r.owner, Attempt: 1,
		Progress: framework.OperationProgress{Started: now, Updated: now, Description: "waiting to run"},
	}
	err = r.store.Create(ctx, operation)
	if errors.Is(err, ErrExists) {
		// Progress reports what became of it, unless its state is damaged.
		if _, err := r.store.Get(ctx, operation.ID); errors.Is(err, ErrDamaged) {
			return "", fmt.Errorf("start an operation: it was started before, and its state cannot be used: %w", err)
		}
		framework.Log(ctx).Debug("operation was started before", "operation", operation.ID, "key", key)
		return operation.ID, nil
	}
	if err != nil {
		return "", fmt.Errorf("start an operation: %w", err)
	}
	framework.Log(ctx).Debug("operation started", "operation", operation.ID, "key", key)
	r.launch(ctx, operation, input)
	r.sweep(ctx)
	return operation.ID, nil
}

func decodeInput[In any](raw []byte) (In, error) {
	var input In
	if err := json.Unmarshal(raw, &input); err != nil {
		return input, fmt.Errorf("decode its input: %w", err)
	}
	return input, nil
}

// Progress returns the progress of an operation. If the process that worked on the operation has ended, Progress
// resumes the operation in this process or marks it as failed, depending on WithResume. An operation whose state is
// lost is reported as failed. Progress returns an error if the store is unavailable, or if the operation is not one of
// this runner's.
func (r *Runner[In]) Progress(ctx context.Context, id string) (framework.OperationProgress, error) {
	if run := r.run(id); run != nil {
		if progress, ok, err := run.current(); ok {
			return progress, err
		}
	}
	operation, err := r.get(ctx, id)
	switch {
	case isLost(id, err):
		framework.Log(ctx).Error("the state of the operation is lost", "operation", id, "error", err)
		return framework.OperationProgress{Completed: true, Err: "the state of the operation is lost: " +
			validText(err.Error())}, nil
	case err != nil:
		return framework.OperationProgress{}, err
	case operation.Progress.Completed:
		r.forgetOwner(id)
		return operation.Progress, nil
	case r.ownerIsAlive(operation):
		return operation.Progress, nil
	}
	return r.takeOver(ctx, operation)
}

// Cancel requests the end of an operation, whichever process works on it. Progress reports the operation as completed
// once the work has returned; if another process works on it, that process gets the request with its next heartbeat.
// Cancelling an operation that has completed is not an error.
func (r *Runner[In]) Cancel(ctx context.Context, id string) error {
	for {
		operation, err := r.get(ctx, id)
		if isLost(id, err) {
			return nil // Progress reports it as failed
		}
		if err != nil {
			return err
		}
		if operation.Progress.Completed {
			return nil
		}
		if !operation.CancelRequested {
			operation.CancelRequested = true
			err = r.store.Update(ctx, operation)
		}
		if errors.Is(err, ErrConflict) && ctx.Err() == nil {
			continue
		}
		if run := r.run(id); run != nil {
			run.cancel(ErrCancelled)
			if err != nil {
				run.log.Warn("cancelled the operation, but could not store the request", "error", err)
			}
			return nil
		}
		return err
	}
}

// Close cancels all work of this runner and waits until it has returned. Operations that have not completed are left
// for another process to take over at once. Plugins need not call Close: the end of a process does no harm.
func (r *Runner[In]) Close() {
	r.mu.Lock()
	r.closed = true
	for _, run := range r.runs {
		run.cancel(errClosed)
	}
	r.mu.Unlock()
	r.active.Wait()
}

func (r *Runner[In]) get(ctx context.Context, id string) (*Operation, error) {
	operation, err := r.store.Get(ctx, id)
	if err == nil && operation.Runner != r.name {
		return nil, fmt.Errorf("operation %s was started by %q, not by %q: %w", id, operation.Runner, r.name, errForeign)
	}
	return operation, err
}

// isLost reports whether err, which get returned, means that the operation was started but its state is missing or
// damaged.
func isLost(id string, err error) bool {
	return errors.Is(err, ErrDamaged) || errors.Is(err, ErrNotFound) && idPattern.MatchString(id)
}

func (r *Runner[In]) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// run returns the work of this process on an operation, or nil.
func (r *Runner[In]) run(id string) *Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs[id]
}
