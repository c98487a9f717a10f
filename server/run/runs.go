package run

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var (
	// errDeleted ends a running operation whose custom resource was deleted.
	ErrDeleted = errors.New("it was deleted while it was in progress")

	// errShutdown ends a running operation when the server stops.
	ErrShutdown = errors.New("the server was stopped while it was in progress")

	// errLostLead ends everything at once in a server that another one may have taken the place of.
	ErrLostLead = errors.New("this server does not lead any more: its lease could not be renewed in time")
)

// FinalWrites is how long an operation that had to end early may take to clean up and to say so.
const FinalWrites = 20 * time.Second

// Operations are the backups or restores that run in this process. Through them others end an
// operation early, and see that somebody works on a custom resource.
type Runs struct {
	grace time.Duration
	lost  context.Context

	mu      sync.Mutex
	running map[types.UID]*Run
}

// NewOperations makes an empty set. grace is how long an operation may go on after the server was
// told to stop. When lost ends, all operations end at once and write nothing more: another server
// has taken over.
func NewRuns(lost context.Context, grace time.Duration) *Runs {
	return &Runs{grace: grace, lost: lost, running: make(map[types.UID]*Run)}
}

// operation is one running backup or restore.
type Run struct {
	// ctx is for the work. Its cause is errDeleted or errShutdown when it had to end early.
	Ctx context.Context
	// final is for the clean-up and the last write of the phase: it ends some time after the server
	// was told to stop, and not before.
	Final context.Context

	Cancel context.CancelCauseFunc
	End    func()
}

// begin registers an operation by the UID of its custom resource, in the server's context. The
// operation's end must be called when all is written.
func (o *Runs) Begin(server context.Context, uid types.UID) *Run {
	ctx, cancelRun := context.WithCancelCause(context.WithoutCancel(server))
	final, cancelFinal := context.WithCancelCause(context.WithoutCancel(server))
	stop := context.AfterFunc(server, func() {
		t1 := time.AfterFunc(o.grace, func() { cancelRun(ErrShutdown) })
		t2 := time.AfterFunc(o.grace+FinalWrites, func() { cancelFinal(ErrShutdown) })
		context.AfterFunc(final, func() { t1.Stop(); t2.Stop() })
	})
	keep := context.AfterFunc(o.lost, func() {
		cancelRun(ErrLostLead)
		cancelFinal(ErrLostLead)
	})
	op := &Run{Ctx: ctx, Final: final, Cancel: cancelRun}
	op.End = func() {
		o.mu.Lock()
		delete(o.running, uid)
		o.mu.Unlock()
		stop()
		keep()
		cancelRun(nil)
		cancelFinal(nil)
	}

	o.mu.Lock()
	defer o.mu.Unlock()
	o.running[uid] = op
	return op
}

// isRunning reports whether the operation of this custom resource runs here.
func (o *Runs) IsRunning(uid types.UID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.running[uid] != nil
}

// stop asks an operation to end, for the reason given. Nothing happens when it does not run.
func (o *Runs) Stop(uid types.UID, reason error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if op := o.running[uid]; op != nil {
		op.Cancel(reason)
	}
}

// stopDeleted ends the running operation of a custom resource that is deleted. The controller
// itself cannot, as it works on that very object.
func (o *Runs) StopDeleted() handler.EventHandler {
	return handler.Funcs{
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if e.ObjectNew.GetDeletionTimestamp() != nil {
				o.Stop(e.ObjectNew.GetUID(), ErrDeleted)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			o.Stop(e.Object.GetUID(), ErrDeleted)
		},
	}
}

// reason is why the work failed with err: the early end of the operation, if it had one.
func (op *Run) Reason(err error) error {
	if op.Ctx.Err() != nil {
		return context.Cause(op.Ctx)
	}
	return err
}

// safely turns a panic of work into an error, so that an operation always gets to its end.
func CatchPanics(log hclog.Logger, work func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("panic; this is a bug in the server", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic in the server: %v", p)
		}
	}()
	return work()
}
