package operations

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/framework"
)

// ErrCancelled is the cause (context.Cause) of the end of a work's context when the operation is to end.
var ErrCancelled = errors.New("the operation was cancelled")

var (
	// errTakenOver is the cause when another process works on the operation, or its state is gone.
	errTakenOver = errors.New("the operation is not this process's any more")
	// errOfAnother is wrapped by the error for an operation of a runner with another name.
	errOfAnother = errors.New("runners answer for their own operations only")
	// errClosed is the cause when the runner is closed.
	errClosed = errors.New("the runner is closed")
)

// Work is what is done for one operation. ctx ends when the operation is cancelled, and when this process may not work on it
// any more; it should return then. What it returns is how the operation ended. input is shared by nobody.
type Work[In any] func(ctx context.Context, input In, run *Run) error

// Runner does work inside the plugin's process, and answers for it to the host. Several processes may have a runner of the
// same name on the same store: each operation is worked on by one of them, and answered for by all.
//
// In is what an operation works on; it is kept as JSON, so that another process can go on.
type Runner[In any] struct {
	name  string
	store Store
	log   hclog.Logger
	work  Work[In]
	settings
	owner string // this runner, among all there are and were

	mu     sync.Mutex
	closed bool
	runs   map[string]*Run
	seen   map[string]sighting
	swept  time.Time
	ended  sync.WaitGroup // for all goroutines
}

// sighting is a sign of life of the owner of an operation.
type sighting struct {
	owner string
	beat  int64
	at    time.Time // when it was seen first
}

// NewRunner makes a runner. name tells it apart from others on the same store: the plugin's name, for instance. The runner
// lasts as long as the process; tests Close it.
func NewRunner[In any](name string, store Store, log hclog.Logger, work Work[In], options ...Option) *Runner[In] {
	r := &Runner[In]{
		name: name, store: store, log: log, work: work,
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

// Begin begins an operation, unless one was begun under key, in whichever process and whatever has become of it. It
// returns the operation's id. The work goes on when ctx ends.
func (r *Runner[In]) Begin(ctx context.Context, key string, input In) (id string, err error) {
	if key == "" {
		return "", errors.New("begin an operation: the key is empty")
	}
	raw, err := json.Marshal(input)
	if err != nil {
		return "", fmt.Errorf("begin an operation: encode its input: %w", err)
	}
	// What the work gets is what a process would get that takes it over.
	if input, err = decodeInput[In](raw); err != nil {
		return "", fmt.Errorf("begin an operation: %w", err)
	}
	if r.isClosed() {
		return "", fmt.Errorf("begin an operation: %w", errClosed)
	}
	now := time.Now().UTC()
	operation := &Operation{
		ID: ID(r.name, key), Runner: r.name, Key: key, Input: raw, Owner: r.owner, Attempt: 1,
		Progress: framework.OperationProgress{Started: now, Updated: now, Description: "waits for its turn"},
	}
	err = r.store.Create(ctx, operation)
	if errors.Is(err, ErrExists) {
		// It is there; what became of it is for Progress to tell, unless nobody can.
		if _, err := r.store.Get(ctx, operation.ID); errors.Is(err, ErrDamaged) {
			return "", fmt.Errorf("begin an operation: it has begun before, and what was kept of it is unusable: %w", err)
		}
		r.log.Debug("operation has begun before", "operation", operation.ID, "key", key)
		return operation.ID, nil
	}
	if err != nil {
		return "", fmt.Errorf("begin an operation: %w", err)
	}
	r.log.Debug("operation begins", "operation", operation.ID, "key", key)
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

// Progress tells how far an operation is. An operation whose process has ended is resumed here, or ended as failed, as the runner
// is set up; one whose state was lost has ended as failed. The error says that the store cannot be used right now, or that no
// runner of this name makes such ids.
func (r *Runner[In]) Progress(ctx context.Context, id string) (framework.OperationProgress, error) {
	if run := r.run(id); run != nil {
		if progress, mine, err := run.current(); mine {
			return progress, err
		}
	}
	operation, err := r.get(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound) && idPattern.MatchString(id), errors.Is(err, ErrDamaged):
		r.log.Error("state of the operation is lost", "operation", id, "error", err)
		return framework.OperationProgress{Completed: true, Err: "the state of the operation is lost: " + wireText(err.Error())}, nil
	case err != nil:
		return framework.OperationProgress{}, err
	case operation.Progress.Completed:
		r.lookAway(id)
		return operation.Progress, nil
	case r.alive(operation):
		return operation.Progress, nil
	}
	return r.takeOver(ctx, operation)
}

// Cancel asks for the end of an operation, whichever process works on it; Progress tells of the end, some seconds later
// when it is another process. It answers true, also for an operation that has ended.
func (r *Runner[In]) Cancel(ctx context.Context, id string) (bool, error) {
	for {
		operation, err := r.get(ctx, id)
		if errors.Is(err, ErrNotFound) && idPattern.MatchString(id) || errors.Is(err, ErrDamaged) {
			return true, nil // as Progress tells
		}
		if err != nil {
			return false, err
		}
		if operation.Progress.Completed {
			return true, nil
		}
		if !operation.CancelAsked {
			operation.CancelAsked = true
			err = r.store.Update(ctx, operation)
		}
		if errors.Is(err, ErrConflict) && ctx.Err() == nil {
			continue
		}
		if run := r.run(id); run != nil {
			run.cancel(ErrCancelled)
			if err != nil {
				r.log.Warn("operation is being cancelled, which could not be kept", "operation", id, "error", err)
			}
			return true, nil
		}
		return err == nil, err
	}
}

// Close ends the work of this runner: its contexts end, and what has not come to its end is left for another process to
// take over at once. It waits for the work to return. There is no need for it in a plugin, whose processes just end.
func (r *Runner[In]) Close() {
	r.mu.Lock()
	r.closed = true
	for _, run := range r.runs {
		run.cancel(errClosed)
	}
	r.mu.Unlock()
	r.ended.Wait()
}

func (r *Runner[In]) get(ctx context.Context, id string) (*Operation, error) {
	operation, err := r.store.Get(ctx, id)
	if err == nil && operation.Runner != r.name {
		return nil, fmt.Errorf("operation %s was begun by %q, not by %q: %w", id, operation.Runner, r.name, errOfAnother)
	}
	return operation, err
}

func (r *Runner[In]) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

func (r *Runner[In]) run(id string) *Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs[id]
}

// alive tells whether somebody works on an operation. Clocks of different machines are not compared: an owner is alive
// unless this process has seen no sign of it for as long as a lease.
func (r *Runner[In]) alive(operation *Operation) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return true // for this process it is
	}
	if operation.Owner == "" {
		return false
	}
	seen := r.seen[operation.ID]
	if seen.owner != operation.Owner || seen.beat != operation.Beat {
		seen = sighting{owner: operation.Owner, beat: operation.Beat, at: time.Now()}
		r.seen[operation.ID] = seen
	}
	return time.Since(seen.at) < r.lease
}

// lookAway forgets the signs of life of an operation that needs none any more.
func (r *Runner[In]) lookAway(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seen, id)
}

// takeOver goes on with an operation that nobody works on. Of several processes that try, one does.
func (r *Runner[In]) takeOver(ctx context.Context, operation *Operation) (framework.OperationProgress, error) {
	input, err := decodeInput[In](operation.Input)
	switch {
	case operation.CancelAsked:
		end(operation, ErrCancelled)
	case !r.resume:
		end(operation, errors.New("the process of the plugin that worked on the operation has ended"))
	case err != nil:
		end(operation, err)
	default:
		operation.Owner = r.owner
		operation.Beat++
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
		return framework.OperationProgress{}, fmt.Errorf("go on with an operation whose process has ended: %w", err)
	}
	r.log.Warn("operation had lost its process",
		"operation", operation.ID, "attempt", operation.Attempt, "ended", operation.Progress.Completed)
	if !operation.Progress.Completed {
		r.launch(ctx, operation, input)
	}
	return operation.Progress, nil
}

// end makes operation one that has ended as err says, which is nil when it went well.
func end(operation *Operation, err error) {
	operation.Owner = ""
	operation.Progress.Completed = true
	operation.Progress.Updated = time.Now().UTC()
	if err != nil {
		operation.Progress.Err = cmp.Or(wireText(err.Error()), "it failed without a message")
	}
}

// launch begins the work on an operation that is this runner's.
func (r *Runner[In]) launch(ctx context.Context, operation *Operation, input In) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	run := &Run{id: operation.ID, attempt: operation.Attempt, cancel: cancel, progress: operation.Progress}
	r.mu.Lock()
	r.runs[run.id] = run
	delete(r.seen, run.id)
	if r.closed {
		cancel(errClosed)
	}
	r.ended.Add(1) // before Close waits, which needs the lock
	r.mu.Unlock()

	done := make(chan error, 1)
	go func() {
		err := errors.New("the work's goroutine ended without returning")
		defer func() { done <- err }()
		err = r.perform(ctx, input, run)
	}()
	// What is kept is changed by the keeper, and by others only to cancel, or to take over.
	keeper := *operation
	go func() {
		defer r.ended.Done()
		defer cancel(nil)
		r.keep(ctx, &keeper, run, done)
		run.setOver()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.runs[run.id] == run {
			delete(r.runs, run.id)
		}
	}()
}

// perform does the work when it is its turn.
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
			r.log.Error("work on the operation panicked", "operation", run.id, "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
			err = fmt.Errorf("plugin panicked: %v", value)
		}
	}()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return r.work(ctx, input, run)
}

// keep keeps the store informed until the work has ended and that is kept, or until it is not ours to say.
func (r *Runner[In]) keep(ctx context.Context, operation *Operation, run *Run, done <-chan error) {
	beats := time.NewTicker(max(r.lease/3, time.Millisecond))
	defer beats.Stop()
	var result error
	ended := false
	for {
		select {
		case result = <-done:
			ended, done = true, nil
		case <-beats.C:
		}
		cause := context.Cause(ctx)
		if errors.Is(cause, errTakenOver) {
			run.setOver()
			if ended {
				return
			}
			continue
		}
		left := ended && result != nil && errors.Is(cause, errClosed)
		err := r.update(context.WithoutCancel(ctx), operation, run, func(next *Operation) {
			next.Beat++
			next.Progress = run.now()
			switch {
			case left:
				next.Owner = ""
			case ended:
				end(next, endedAs(result, cause))
			}
		})
		switch {
		case errors.Is(err, errTakenOver), errors.Is(err, ErrNotFound), errors.Is(err, ErrDamaged):
			r.log.Error("operation is not this process's any more, its work is cancelled", "operation", run.id, "error", err)
			run.setOver()
			run.cancel(errTakenOver)
			if ended {
				return
			}
		case err != nil:
			r.log.Warn("state of the operation could not be kept", "operation", run.id, "error", err)
			if ended {
				run.setUnsaved(fmt.Errorf("the operation has ended, which could not be kept yet: %w", err))
			}
			if ended && r.isClosed() {
				return // another process takes it over when the lease has run out
			}
		case ended:
			return
		}
	}
}

// endedAs is how an operation ended whose work returned result, and whose context ended for cause.
func endedAs(result, cause error) error {
	if errors.Is(cause, ErrCancelled) && errors.Is(result, context.Canceled) {
		return ErrCancelled
	}
	return result
}

// update changes what is kept of an operation that this runner works on.
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
			return errTakenOver
		}
		if current.CancelAsked {
			run.cancel(ErrCancelled)
		}
		*operation = *current
	}
}

// sweep forgets operations that are too old, once an hour.
func (r *Runner[In]) sweep(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || time.Since(r.swept) < time.Hour {
		return
	}
	r.swept = time.Now()
	r.ended.Go(func() {
		if err := r.forget(context.WithoutCancel(ctx), time.Now().Add(-r.keepFor)); err != nil {
			r.log.Warn("old operations could not be removed", "error", err)
		}
	})
}

// forget removes the operations of this runner that nothing has been heard of since before.
func (r *Runner[In]) forget(ctx context.Context, before time.Time) error {
	ids, err := r.store.List(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		operation, err := r.get(ctx, id)
		if errors.Is(err, ErrNotFound) || errors.Is(err, ErrDamaged) || errors.Is(err, errOfAnother) {
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
		r.lookAway(id)
	}
	return nil
}
