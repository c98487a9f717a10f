package runs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// retryPause is the time between two attempts to get an object, or to reach the API server.
const retryPause = 500 * time.Millisecond

// await watches o until it has ended and shows each state. It tolerates an API server that is away for a while.
func await(ctx context.Context, cluster *command.Cluster, o *Object, progress command.Progress) error {
	defer progress.End()
	asking, stop := context.WithCancel(ctx)
	defer stop()
	w := &waiter{cluster: cluster, object: o, progress: progress, asking: asking, amounts: make(chan string)}
	retries := retrying{name: o.GetName(), progress: progress}
	for {
		err := w.follow(ctx)
		if err == nil {
			return nil
		}
		if err := retries.after(ctx, err); err != nil {
			return err
		}
	}
}

// Poll gets object until done, which is called with each state, returns true or an error. It tolerates an API server
// that is away for a while. It returns an error that wraps ErrDeleted if the object was deleted.
func Poll[T any, P interface {
	*T
	client.Object
}](
	ctx context.Context, cluster *command.Cluster, object P, progress command.Progress, done func() (bool, error),
) error {
	defer progress.End()
	retries := retrying{name: object.GetName(), progress: progress}
	uid := object.GetUID()
	for {
		newest := P(new(T)) // decoding keeps what the object has and the answer does not
		err := cluster.Get(ctx, client.ObjectKeyFromObject(object), newest)
		if err == nil && newest.GetUID() != uid {
			return fmt.Errorf("%s %w", object.GetName(), ErrDeleted)
		}
		if err == nil {
			*object = *newest
			if ended, err := done(); ended || err != nil {
				return err
			}
		}
		if err := retries.after(ctx, err); err != nil {
			return err
		}
	}
}

// ErrDeleted says that the object that a command waits for was deleted.
var ErrDeleted = errors.New("was deleted")

// retrying is how a command that waits for an object goes on after an error.
type retrying struct {
	name     string // of the object
	progress command.Progress
	noted    bool // that the API server is away
}

// after pauses after an attempt. It returns the error that ends the wait, nil if the next attempt is due.
func (r *retrying) after(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil: // the wait ends below
	case err == nil:
		r.noted = false
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s %w", r.name, ErrDeleted)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return err
	case !r.noted:
		r.progress.Note(fmt.Sprintf("still waiting, but the API server cannot be reached: %v", err))
		r.noted = true
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("stopped waiting for %s; it continues", r.name)
	case <-time.After(retryPause):
		return nil
	}
}

// waiter shows the states of an object.
type waiter struct {
	cluster  *command.Cluster
	object   *Object
	progress command.Progress
	asking   context.Context                       //nolint:containedctx // of the goroutine that asks for amounts
	question atomic.Pointer[func() (string, bool)] // nil before the first
	amounts  chan string                           // how far its operations are
	phase    string                                // to which amount belongs
	amount   string                                // the last one
}

// follow watches the object until it has ended. It returns an error if the watch ends before.
func (w *waiter) follow(ctx context.Context) error {
	o := w.object
	uid := o.GetUID()
	if err := w.cluster.Get(ctx, client.ObjectKeyFromObject(o.Object), o.Object); err != nil {
		return err
	}
	if uid != "" && o.GetUID() != uid {
		return apierrors.NewNotFound(o.resource, o.GetName())
	}
	if w.show() {
		return nil
	}
	watcher, err := w.cluster.Watch(ctx, o.list, client.InNamespace(o.GetNamespace()),
		client.MatchingFields{"metadata.name": o.GetName()},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: o.GetResourceVersion()}})
	if err != nil {
		return err
	}
	defer watcher.Stop()
	for {
		select {
		case w.amount = <-w.amounts:
			w.show()
		case event, open := <-watcher.ResultChan():
			if !open {
				return io.ErrUnexpectedEOF
			}
			if ended, err := w.apply(event); ended || err != nil {
				return err
			}
		}
	}
}

// apply shows an event of the watch, and reports whether the object has ended.
func (w *waiter) apply(event watch.Event) (ended bool, err error) {
	switch event.Type {
	case watch.Added, watch.Modified:
		if err := w.object.assign(event.Object); err != nil {
			return false, err
		}
		return w.show(), nil
	case watch.Deleted:
		return false, apierrors.NewNotFound(w.object.resource, w.object.GetName())
	case watch.Error:
		return false, apierrors.FromObject(event.Object)
	default:
		return false, nil
	}
}

// show shows the state of the object and reports whether it has ended. While it waits for operations, those are
// counted; before, they are mentioned.
func (w *waiter) show() bool {
	now := w.object.state()
	state := command.State{Phase: now.Phase, What: "items", Done: now.Done, Total: now.Total, Waiting: now.Waiting}
	if now.Phase != w.phase {
		w.phase, w.amount = now.Phase, ""
	}
	if now.Kind == "restore" && !now.Starts() && !now.Waits() && !now.Ended() {
		state.Detail = w.amount
		w.askWaves(now)
	}
	if now.Starts() {
		state.Detail = fmt.Sprintf("%d of %s ended", now.Operations.Ended(),
			layout.Count(now.Operations.Attempted(), "operation"))
		if w.amount != "" {
			state.Detail += ", " + w.amount
		}
		w.ask(now)
	}
	if now.Waits() {
		state = command.State{Phase: now.Phase, What: "operations", Done: now.Operations.Ended(),
			Total: now.Operations.Attempted(), Detail: w.amount, Waiting: now.Waiting}
		w.ask(now)
	}
	w.progress.State(state)
	return now.Ended()
}

// askWaves begins to ask the server how far the waves of a restore are, if that is shown.
func (w *waiter) askWaves(run status.Run) {
	w.keepAsking(func() (string, bool) {
		report, err := w.cluster.Restoring(w.asking, askTimeout, serverreport.RestoreQuestion{Restore: run.Name})
		if err != nil || report == nil {
			return "", false
		}
		return status.OrderProgress(report.Plan), true
	})
}

// ask begins to ask the server how far the operations of a run are, if that is shown.
func (w *waiter) ask(run status.Run) {
	key, uid := serverreport.OwnerKey(run.Kind, run.Name), w.object.GetUID()
	w.keepAsking(func() (string, bool) {
		report, err := w.cluster.Operations(w.asking, askTimeout, key)
		if err != nil {
			return "", false
		}
		return status.OperationsProgress(&report.Only(run.Title(), uid).Summary), true
	})
}

// keepAsking begins to ask for an amount that only the server knows, in place of what was asked for before. Nothing is
// asked if nothing is drawn. The bar goes on without an answer.
func (w *waiter) keepAsking(question func() (amount string, ok bool)) {
	if _, drawn := w.progress.(*command.Bar); !drawn {
		return
	}
	if w.question.Swap(&question) != nil {
		return
	}
	go func() {
		for {
			if amount, ok := (*w.question.Load())(); ok {
				select {
				case w.amounts <- amount:
				case <-w.asking.Done():
				}
			}
			select {
			case <-w.asking.Done():
				return
			case <-time.After(askPause):
			}
		}
	}()
}

const (
	askPause   = 2 * time.Second // between two questions to the server
	askTimeout = 10 * time.Second
)
