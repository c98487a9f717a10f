package run

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/kube/waits"
)

var (
	// ErrDeleted is the cause that ends a run whose custom resource was deleted.
	ErrDeleted = errors.New("it was deleted while it was in progress")

	// ErrCancelled is the cause that ends a run whose custom resource has the annotation cleat.dev/cancel.
	ErrCancelled = errors.New("it was cancelled on request (annotation " + velerov1.CancelAnnotation + ")")

	// ErrShutdown is the cause that ends a run when the server stops.
	ErrShutdown = errors.New("the server was stopped while it was in progress")

	// ErrLostLead is the cause that ends all runs immediately when another server has taken over.
	ErrLostLead = errors.New("this server does not lead any more: its lease could not be renewed in time, and another " +
		"server has it")

	// ErrTakenUp is the cause that ends a run when another process has taken it up.
	ErrTakenUp = errors.New("another server has taken up the run")
)

// FinalWrites is how long the clean-up and the last write of a run may take after its early end.
const FinalWrites = 20 * time.Second

// RunsOptions are the settings of a set of runs.
type RunsOptions struct {
	Kind     string        // "backup" or "restore", for errors
	Identity string        // of this process, from NewIdentity
	Attempts int           // the maximum number of starts of a run that count, if its servers die; at least 1
	Grace    time.Duration // how long a run may continue after the server was asked to stop
	// Lost ends when another server has taken over. All runs then end immediately, without another write.
	Lost context.Context
}

// Runs is the set of backups or restores at work in this process. It is safe for concurrent use.
type Runs struct {
	RunsOptions

	mu      sync.Mutex
	running map[types.UID]*Run
}

// NewRuns returns an empty set.
func NewRuns(o RunsOptions) *Runs {
	o.Attempts = max(1, o.Attempts)
	return &Runs{RunsOptions: o, running: make(map[types.UID]*Run)}
}

// Run is a backup or restore at work.
type Run struct {
	// Ctx is the context of the work. Its cause is one of the errors above if the run is ended early. Ctx and Final
	// have the list of what the run waits for.
	Ctx context.Context
	// Final is the context of the clean-up and of the last write. When the server stops, it ends FinalWrites after
	// Ctx.
	Final context.Context
	// Cancel ends the run early, for a cause.
	Cancel context.CancelCauseFunc
	// End removes the run from its set.
	End func()

	runs  *Runs
	claim string // identifies this process and this run
}

// Begin adds a run for the custom resource with the uid. server is the context of the server, whose end must not end
// the run immediately. Calls of plugins with the contexts of the run are attributed to it. End must be called after
// the last write.
func (r *Runs) Begin(server context.Context, uid types.UID) *Run {
	server = pluginhost.ForRun(waits.With(server, waits.New()), string(uid))
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(server))
	final, cancelFinal := context.WithCancelCause(context.WithoutCancel(server))
	ignoreServer := context.AfterFunc(server, func() {
		t1 := time.AfterFunc(r.Grace, func() { cancel(ErrShutdown) })
		t2 := time.AfterFunc(r.Grace+FinalWrites, func() { cancelFinal(ErrShutdown) })
		context.AfterFunc(final, func() { t1.Stop(); t2.Stop() })
	})
	ignoreLost := context.AfterFunc(r.Lost, func() {
		cancel(ErrLostLead)
		cancelFinal(ErrLostLead)
	})
	run := &Run{Ctx: ctx, Final: final, Cancel: cancel, runs: r, claim: newClaim(r.Identity)}
	run.End = func() {
		r.mu.Lock()
		delete(r.running, uid)
		r.mu.Unlock()
		ignoreServer()
		ignoreLost()
		cancel(nil)
		cancelFinal(nil)
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	r.running[uid] = run
	return run
}

// IsRunning reports whether the set has a run of the custom resource with the uid.
func (r *Runs) IsRunning(uid types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running[uid] != nil
}

// Stop ends the run of the custom resource with the uid early, if there is one.
func (r *Runs) Stop(uid types.UID, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if run := r.running[uid]; run != nil {
		run.Cancel(cause)
	}
}

// StopOnRequest returns a handler that ends the run of a custom resource that is deleted or cancelled. The controller
// of the resource cannot do that, because it does not get the event before the run has ended.
func (r *Runs) StopOnRequest() handler.EventHandler {
	return handler.Funcs{
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			switch {
			case e.ObjectNew.GetDeletionTimestamp() != nil:
				r.Stop(e.ObjectNew.GetUID(), ErrDeleted)
			case velerov1.CancelRequested(e.ObjectNew):
				r.Stop(e.ObjectNew.GetUID(), ErrCancelled)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			r.Stop(e.Object.GetUID(), ErrDeleted)
		},
	}
}

// Reason returns why the work failed with err: the cause of the early end if there is one, err otherwise.
func (r *Run) Reason(err error) error {
	if r.Ctx.Err() != nil {
		return context.Cause(r.Ctx)
	}
	return err
}

// Start returns the claim with which this run starts the first attempt of an object.
func (r *Run) Start() Claim {
	return Claim{By: r.claim, Attempt: 1, Times: attempts{began: time.Now()}.times()}
}

// TakeUp returns the claim with which this run takes up an object that another process has left in progress. If no
// attempts are left, it returns an error, with which the object fails.
func (r *Run) TakeUp(object client.Object) (Claim, error) {
	next, may := attemptsOf(ClaimOf(object)).next(time.Now(), r.runs.Attempts)
	if !may {
		return Claim{}, interrupted(r.runs.Kind, next.made)
	}
	return Claim{By: r.claim, Attempt: next.made, Times: next.times()}, nil
}

// DescribeAttempt returns which attempt of a run is the last one, "" for the first.
func (r *Runs) DescribeAttempt(object client.Object) string {
	made := attemptsOf(ClaimOf(object))
	if made.made == 1 {
		return ""
	}
	return made.describe(r.Attempts)
}

// IsLeft reports whether the run ended early and is left to another server, so that nothing more may be written about
// it. That is so if another server has already taken it up, or if this server stops and the object has attempts left.
func (r *Run) IsLeft(object client.Object) bool {
	switch cause := context.Cause(r.Ctx); {
	case errors.Is(cause, ErrLostLead), errors.Is(cause, ErrTakenUp):
		return true
	default:
		_, may := attemptsOf(ClaimOf(object)).next(time.Now(), r.runs.Attempts)
		return errors.Is(cause, ErrShutdown) && may
	}
}
