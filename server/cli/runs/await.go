package runs

import (
	"context"
	"fmt"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/cli/status/layout"
	"github.com/cleat-dev/cleat/server/cli/status/serverreport"
)

// retryPause is the time between two attempts to reach the API server.
const retryPause = 500 * time.Millisecond

// await watches o until it has ended and shows each state. It tolerates an API server that is away for a while.
func await(ctx context.Context, cluster *command.Cluster, o *Object, progress command.Progress) error {
	defer progress.End()
	asking, stop := context.WithCancel(ctx)
	defer stop()
	w := &waiter{cluster: cluster, object: o, progress: progress, asking: asking, amounts: make(chan string)}
	for noted := false; ; {
		err := w.follow(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("stopped waiting for %s; it continues", o.GetName())
		case apierrors.IsNotFound(err):
			return fmt.Errorf("%s was deleted", o.GetName())
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return err
		case !noted:
			progress.Note(fmt.Sprintf("still waiting, but the API server cannot be reached: %v", err))
			noted = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryPause):
		}
	}
}

// waiter shows the states of an object.
type waiter struct {
	cluster  *command.Cluster
	object   *Object
	progress command.Progress
	asking   context.Context //nolint:containedctx // of the goroutine that asks for amounts
	asks     bool
	amounts  chan string // how far its operations are
	amount   string      // the last one
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

// ask begins to ask the server how far the operations of a run are, if that is shown.
func (w *waiter) ask(run status.Run) {
	if _, drawn := w.progress.(*command.Bar); !drawn || w.asks {
		return
	}
	w.asks = true
	key, uid := serverreport.OwnerKey(run.Kind, run.Name), w.object.GetUID()
	go func() {
		for {
			if report, err := w.cluster.Operations(w.asking, askTimeout, key); err == nil { // the bar goes on without it
				select {
				case w.amounts <- status.OperationsProgress(&report.Only(run.Title(), uid).Summary):
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
