package restores

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/reference"
	"github.com/cleat-dev/cleat/server/internal/control/metrics"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/hook"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/engine/restore"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/spec/enclosure"
)

// restoreFinalizer keeps a Restore until its files in the object storage are deleted.
const restoreFinalizer = "restores.velero.io/external-resources-finalizer"

// Engine restores from an archive. An error is fatal; the result then describes what was done before. The errors of
// single items are only in the result.
type Engine func(ctx context.Context, req restore.Request) (*restore.Result, error)

// Controller validates and runs restores: it takes them from New to the end of InProgress. A restore that another
// process has left InProgress goes on, past what it has restored, until its attempts are used up.
type Controller struct {
	*run.Cluster
	Runs                 *run.Runs
	Stores               run.Stores
	StoreOutage          time.Duration // how long a run waits for its object store
	Plugins              run.Plugins
	Journals             *operation.Journals // nil for none
	Monitor              *operation.Monitor  // nil in dry runs
	Volumes              *volumes.Hub
	Engine               Engine
	Accounts             *Accounts        // gets those of the restores at work; nil for none
	References           *reference.Table // by which the objects of a backup without a manifest need others
	Hooks                *hook.Restores   // nil for dry runs
	ItemOperationTimeout time.Duration
	DefaultModifiers     string // ConfigMap with the resource modifiers of restores that name none; empty for none
	Trust                Trust
	AllVersions          bool   // choose among all versions of the objects in a backup (EnableAPIGroupVersions)
	Slots                *Slots // those of the restores at work; nil for dry runs
	LogOptions           run.LogOptions
	Logs                 *run.Logs // nil for dry runs
	// for unpacked archives; empty means the system's directory of temporary files
	SpoolDir string
	// Enclose makes the rules of a rehearsal. Unless it is nil, the controller runs the restores of rehearsals, and no
	// others.
	Enclose func(restore *velerov1.Restore) enclosure.Rules
	// MadeFor reports whether the server has made a namespace for the rehearsal of a Restore; nil without Enclose.
	MadeFor func(ctx context.Context, restore types.UID, namespace *corev1.Namespace) (bool, error)
	Events  events.EventRecorder // nil for none
	Metrics *metrics.Metrics
	Log     hclog.Logger
	Now     func() time.Time
}

// Reconcile runs a new restore, or one that another process has left, once it has a slot, and returns when the run has
// ended. An InProgress restore does not run in this process: its run would occupy the request.
func (r *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	restore := new(velerov1.Restore)
	if starts, err := r.starts(ctx, req, restore); !starts {
		return ctrl.Result{}, err
	}
	slot, err := r.Slots.take(ctx)
	if err != nil {
		return ctrl.Result{}, nil // the server ends
	}
	defer slot.Leave()
	if starts, err := r.starts(ctx, req, restore); !starts { // it may have waited
		return ctrl.Result{}, err
	}
	log := r.Log.With("restore", req.String())

	// The run begins before the phase is written, so that every InProgress restore has one.
	active := r.Runs.Begin(ctx, restore.UID)
	defer active.End()

	src, err := r.start(ctx, active, restore)
	switch {
	case run.Superseded(err):
		log.Debug("not started", "reason", err)
		return ctrl.Result{}, nil
	case errors.Is(err, run.ErrLocationAway):
		log.Info("not taken up yet", "reason", err)
		return ctrl.Result{RequeueAfter: run.WaitDelay}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("start the restore: %w", err)
	case run.RestorePhase(restore) == velerov1.RestorePhaseFailedValidation:
		log.Warn("the restore failed validation", "errors", restore.Status.ValidationErrors)
		r.Metrics.RestoreInvalid(restore)
		return ctrl.Result{}, nil
	case run.RestorePhase(restore) == velerov1.RestorePhaseFailed:
		log.Warn("the restore failed", "reason", restore.Status.FailureReason)
		r.Metrics.RestoreRan(restore)
		return ctrl.Result{}, nil
	}
	if attempt := r.Runs.DescribeAttempt(restore); attempt != "" {
		text := attempt + ": the server of the last one was stopped or killed; the restore goes on"
		log.Warn(text)
		if r.Events != nil {
			r.Events.Eventf(restore, nil, corev1.EventTypeWarning, "TakenUp", "Start", "%s", text)
		}
	}
	r.Metrics.RestoreStarted(restore)
	return ctrl.Result{}, r.work(active, restore, slot, src, log)
}

// starts reads a restore, and reports whether this controller starts its run.
func (r *Controller) starts(ctx context.Context, req ctrl.Request, restore *velerov1.Restore) (bool, error) {
	if err := r.Get(ctx, req.NamespacedName, restore); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	phase := run.RestorePhase(restore)
	return (phase == velerov1.RestorePhaseNew || phase == velerov1.RestorePhaseInProgress) && r.runs(restore) &&
		restore.DeletionTimestamp == nil && ctx.Err() == nil, nil
}

// runs reports whether a restore is one of this controller. That of a rehearsal begins when its namespaces are there.
func (r *Controller) runs(restore *velerov1.Restore) bool {
	if r.Enclose == nil {
		return !velerov1.IsRehearsal(restore)
	}
	return restore.Annotations[velerov1.RehearsalAnnotation] == velerov1.RehearsalRestoring
}

// start claims the restore and writes InProgress, FailedValidation, or Failed if all its attempts were made.
func (r *Controller) start(ctx context.Context, active *run.Run, restore *velerov1.Restore) (src source, err error) {
	err = r.AdvanceRestore(ctx, restore, func(restore *velerov1.Restore) (err error) {
		if velerov1.CancelRequested(restore) {
			run.FailedRestore(run.ErrCancelled, r.Now())(restore)
			return nil
		}
		if run.RestorePhase(restore) == velerov1.RestorePhaseInProgress {
			src, err = r.takeUp(ctx, active, restore)
			return err
		}
		if src, err = r.prepare(ctx, restore); err != nil {
			return err
		}
		if len(restore.Status.ValidationErrors) > 0 {
			restore.Status.Phase = velerov1.RestorePhaseFailedValidation
			return nil
		}
		restore.Status.Phase = velerov1.RestorePhaseInProgress
		controllerutil.AddFinalizer(restore, restoreFinalizer) // from now on it may have files
		active.Start().Set(restore)
		restore.Status.StartTimestamp = run.Timestamp(r.Now())
		return nil
	})
	return src, err
}

// takeUp changes a restore that another process has left: it gets a new claim, or is Failed if it cannot go on.
func (r *Controller) takeUp(ctx context.Context, active *run.Run, restore *velerov1.Restore) (source, error) {
	claim, err := active.TakeUp(restore)
	if err != nil {
		run.FailedRestore(err, r.Now())(restore)
		return source{}, nil
	}
	// Both are set since the first attempt. The spec that was valid then stays as it is.
	again := restore.DeepCopy()
	again.Spec.ScheduleName = ""
	src, err := r.prepare(ctx, again)
	switch problems := again.Status.ValidationErrors; {
	case err != nil:
		return source{}, err
	case len(problems) > 0 && src.location != nil && run.LocationProblem(src.location) != "":
		return source{}, run.ErrLocationAway
	case len(problems) > 0:
		run.FailedRestore(fmt.Errorf("the restore could not be taken up: %s", strings.Join(problems, "; ")), r.Now())(restore)
		return source{}, nil
	}
	claim.Set(restore)
	run.CountOperationsOfRestore(restore, operation.Counts{})
	return src, nil
}

// work runs an InProgress restore and writes the phase that follows, unless the run is left to another server.
func (r *Controller) work(
	active *run.Run, restore *velerov1.Restore, slot restore.Slot, src source, server hclog.Logger,
) error {
	log, err := r.LogOptions.Open("restore", restore, r.Log, r.Now)
	if err != nil {
		return r.finish(active, restore, run.FailedRestore(err, r.Now()), server)
	}
	defer func() {
		if err := log.Close(); err != nil {
			server.Warn("could not remove the temporary file of the log", "error", err)
		}
	}()
	r.Logs.Begin(restore.UID, log.Logger())
	work := work{Controller: r, run: active, slot: slot, object: restore, source: src, log: log, server: server}
	end := work.do()
	if end == nil {
		work.operations.Forget()
		r.Logs.End(restore.UID)
		server.Info("the restore is left to the next server", "reason", context.Cause(active.Ctx))
		return nil
	}
	return r.finish(active, restore, end, server)
}

// finish writes the phase after the run. It repeats transient failures as long as the server runs. An error means that
// the restore is still InProgress.
func (r *Controller) finish(
	active *run.Run, restore *velerov1.Restore, end func(*velerov1.Restore), log hclog.Logger,
) error {
	err := r.AdvanceRestore(active.Final, restore, func(restore *velerov1.Restore) error {
		end(restore)
		return nil
	})
	if err != nil || run.RestorePhase(restore) == velerov1.RestorePhaseFailed {
		r.Logs.End(restore.UID)
	}
	switch {
	case errors.Is(err, run.ErrNotFound):
		log.Info("the restore was deleted while it was in progress")
	case errors.Is(err, run.ErrPhaseChanged):
		log.Warn("the end of the run was not written", "reason", err)
	case err != nil:
		log.Error("could not write the phase after the run; the restore is taken up again", "error", err)
		return fmt.Errorf("write the phase after the run: %w", err)
	default:
		log.Info("the run has ended", "phase", restore.Status.Phase, "errors", restore.Status.Errors, "warnings",
			restore.Status.Warnings, "reason", restore.Status.FailureReason)
		r.Metrics.RestoreRan(restore)
	}
	return nil
}
