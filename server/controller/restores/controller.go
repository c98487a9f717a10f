package restores

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/controller/metrics"
	"github.com/cleat-dev/cleat/server/restore"
	"github.com/cleat-dev/cleat/server/run"
	"github.com/cleat-dev/cleat/server/runlog"
)

// restoreFinalizer keeps a Restore until its files in the object storage are deleted.
const restoreFinalizer = "restores.velero.io/external-resources-finalizer"

// Engine restores from an archive. An error is fatal; the result then describes what was done before. The errors of single
// items are only in the result.
type Engine func(ctx context.Context, req restore.Request) (*restore.Result, error)

// Controller validates and runs restores: it takes them from New to the end of InProgress.
type Controller struct {
	*run.Cluster
	Runs                 *run.Runs
	Stores               run.Stores
	Plugins              run.Plugins
	Engine               Engine
	ItemOperationTimeout time.Duration
	LogOptions           run.LogOptions
	SpoolDir             string // for unpacked archives; empty means the system's directory of temporary files
	Metrics              *metrics.Metrics
	Log                  hclog.Logger
	Now                  func() time.Time
}

// Reconcile runs a new restore and returns when the run has ended. So the number of workers limits the number of concurrent
// restores.
func (r *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	restore := new(velerov1.Restore)
	if err := r.Get(ctx, req.NamespacedName, restore); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if run.RestorePhase(restore) != velerov1.RestorePhaseNew || restore.DeletionTimestamp != nil || ctx.Err() != nil {
		return ctrl.Result{}, nil
	}
	log := r.Log.With("restore", req.String())

	// The run begins before the phase is written, so that every InProgress restore has one.
	active := r.Runs.Begin(ctx, restore.UID)
	defer active.End()

	src, err := r.start(ctx, restore)
	switch {
	case errors.Is(err, run.ErrNotFound), errors.Is(err, run.ErrPhaseChanged):
		log.Debug("not started", "reason", err)
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("start the restore: %w", err)
	case run.RestorePhase(restore) == velerov1.RestorePhaseFailedValidation:
		log.Warn("the restore failed validation", "errors", restore.Status.ValidationErrors)
		r.Metrics.RestoreInvalid(restore)
		return ctrl.Result{}, nil
	}
	r.Metrics.RestoreStarted(restore)
	r.work(active, restore, src, log)
	return ctrl.Result{}, nil
}

// start writes InProgress or FailedValidation.
func (r *Controller) start(ctx context.Context, restore *velerov1.Restore) (src source, err error) {
	err = r.AdvanceRestore(ctx, restore, func(restore *velerov1.Restore) (err error) {
		if src, err = r.prepare(ctx, restore); err != nil {
			return err
		}
		if len(restore.Status.ValidationErrors) > 0 {
			restore.Status.Phase = velerov1.RestorePhaseFailedValidation
			return nil
		}
		restore.Status.Phase = velerov1.RestorePhaseInProgress
		controllerutil.AddFinalizer(restore, restoreFinalizer) // from now on it may have files
		restore.Status.StartTimestamp = run.Timestamp(r.Now())
		return nil
	})
	return src, err
}

// work runs an InProgress restore and writes the phase that follows.
func (r *Controller) work(active *run.Run, restore *velerov1.Restore, src source, server hclog.Logger) {
	log, err := runlog.New(runlog.Options{Dir: r.LogOptions.Dir, JSON: r.LogOptions.JSON, Tee: r.Log.ResetNamed(""), Now: r.Now},
		"restore", client.ObjectKeyFromObject(restore).String())
	if err != nil {
		r.finish(active, restore, run.FailedRestore(err, r.Now()), server)
		return
	}
	defer func() {
		if err := log.Close(); err != nil {
			server.Warn("could not remove the temporary file of the log", "error", err)
		}
	}()
	work := work{Controller: r, run: active, object: restore, source: src, log: log, server: server}
	r.finish(active, restore, work.do(), server)
}

// finish writes the phase after the run. It repeats transient failures as long as the server runs.
func (r *Controller) finish(active *run.Run, restore *velerov1.Restore, end func(*velerov1.Restore), log hclog.Logger) {
	err := r.AdvanceRestore(active.Final, restore, func(restore *velerov1.Restore) error {
		end(restore)
		return nil
	})
	switch {
	case errors.Is(err, run.ErrNotFound):
		log.Info("the restore was deleted while it was in progress")
	case err != nil:
		log.Error("could not write the phase after the run; the next server marks the restore as Failed", "error", err)
	default:
		log.Info("the run has ended", "phase", restore.Status.Phase, "errors", restore.Status.Errors, "warnings", restore.Status.Warnings, "reason", restore.Status.FailureReason)
		r.Metrics.RestoreRan(restore)
	}
}
