package restores

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/hashicorp/go-hclog"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/dryrun"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/restore"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/kube/panics"
)

// DryRuns carries out dry runs of restores: it finds out what each would do, stores that where the files of the restore
// would be, and deletes the Restore some time later; the Finalizer deletes its files. A dry run that another process
// has left begins anew.
type DryRuns struct {
	// Controller is as for real restores, except that it has no journals: no operation is started.
	*Controller
	// Harmless are the actions that are called beside those with framework.RoleDryRun.
	Harmless []string
}

// Reconcile carries out or deletes one dry run, and returns when that has ended.
func (r *DryRuns) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	object := new(velerov1.Restore)
	if err := r.Get(ctx, req.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if object.DeletionTimestamp != nil || ctx.Err() != nil {
		return ctrl.Result{}, nil
	}
	log := r.Log.With("restore", req.String())
	if run.MustDryRun(object, string(run.RestorePhase(object))) {
		if err := r.carryOut(ctx, object, log); err != nil {
			return ctrl.Result{}, err
		}
	}
	if !run.DryRunEnded(object) {
		return ctrl.Result{}, nil
	}
	left, err := r.ExpireDryRun(ctx, object, object.Status.CompletionTimestamp, r.Now())
	return ctrl.Result{RequeueAfter: left}, err
}

// carryOut begins and ends one dry run, unless it is left to another server.
func (r *DryRuns) carryOut(ctx context.Context, object *velerov1.Restore, log hclog.Logger) error {
	active := r.Runs.Begin(ctx, object.UID)
	defer active.End()
	var src source
	return run.CarryOutDryRun(r.Cluster, active, object, log,
		func() (err error) {
			src, err = r.begin(ctx, active, object)
			return err
		},
		func() func(*velerov1.Restore) { return r.work(active, object, src, log) },
		func() []string { return object.Status.ValidationErrors })
}

// begin claims and validates a dry run. One that cannot be carried out has ended.
func (r *DryRuns) begin(ctx context.Context, active *run.Run, object *velerov1.Restore) (src source, err error) {
	err = run.AdvanceDryRun(ctx, r.Cluster, object, func(object *velerov1.Restore) error {
		first := run.ClaimOf(object).By == ""
		if err := active.ClaimDryRun(object); err != nil {
			r.failed(err)(object)
			return nil
		}
		if velerov1.CancelRequested(object) {
			r.failed(run.ErrCancelled)(object)
			return nil
		}
		valid := object.DeepCopy()
		if !first { // the attempt before has set both
			valid.Spec.ScheduleName = ""
		}
		var err error
		if src, err = r.prepare(ctx, valid); err != nil {
			return err
		}
		if first {
			object.Spec, object.Labels = valid.Spec, valid.Labels
		}
		problems := valid.Status.ValidationErrors
		if _, err := run.KeepDryRun(object); err != nil {
			problems = append(problems, err.Error())
		}
		if len(problems) > 0 {
			r.ended(object, velerov1.DryRunFailed, problems...)
			return nil
		}
		object.Status.Phase = velerov1.RestorePhaseFailedValidation
		object.Status.ValidationErrors = []string{"dry run: in progress; nothing is restored"}
		object.Status.StartTimestamp = run.Timestamp(r.Now())
		controllerutil.AddFinalizer(object, restoreFinalizer) // from now on it may have files
		return nil
	})
	return src, err
}

// ended writes the end of a dry run.
func (r *DryRuns) ended(object *velerov1.Restore, state string, texts ...string) {
	object.Annotations[velerov1.DryRunAnnotation] = state
	object.Status.Phase = velerov1.RestorePhaseFailedValidation
	object.Status.ValidationErrors = texts
	object.Status.CompletionTimestamp = run.Timestamp(r.Now())
}

// failed returns the end of a dry run that could not be carried out.
func (r *DryRuns) failed(reason error) func(*velerov1.Restore) {
	return func(object *velerov1.Restore) {
		r.ended(object, velerov1.DryRunFailed, "dry run failed: "+reason.Error())
	}
}

// work runs the engine and stores what it has found out. It returns the end of the dry run, nil if that is left to
// another server.
func (r *DryRuns) work(
	active *run.Run, object *velerov1.Restore, src source, server hclog.Logger,
) (end func(*velerov1.Restore)) {
	log, err := r.LogOptions.Open("restore", object, r.Log, r.Now)
	if err != nil {
		return r.failed(err)
	}
	defer func() {
		if err := log.Close(); err != nil {
			server.Warn("could not remove the temporary file of the log", "error", err)
		}
	}()
	w := &work{Controller: r.Controller, run: active, object: object, source: src, log: log, server: server}
	summary, result, err := r.findOut(w)
	if err == nil {
		return func(object *velerov1.Restore) {
			r.ended(object, velerov1.DryRunDone, outcome.Describe(summary))
			countRestore(object, result)
			object.Status.Progress = &velerov1.RestoreProgress{TotalItems: summary.Total()}
		}
	}
	if active.IsLeft(w.object) {
		return nil
	}
	return r.failed(active.Reason(err))
}

// findOut runs the engine, which reports each item to a temporary file, and stores that with the results and the log.
func (r *DryRuns) findOut(w *work) (summary outcome.Summary, result *restore.Result, err error) {
	log := w.log.Logger()
	progress := w.follow()
	defer func() { *w.object = *progress.End() }()
	objects, err := run.PatientStores{Stores: r.Stores, For: r.StoreOutage, Log: log}.Open(w.run.Ctx, w.source.location)
	if err != nil {
		return summary, nil, err
	}
	file, err := outcome.NewSpool(r.SpoolDir)
	if err != nil {
		return summary, nil, err
	}
	defer file.Remove()
	w.account = restore.NewAccount(file)
	defer r.Accounts.add(w.object.Name, w.account)()
	var plugins *pluginhost.Session
	actions := dryrun.NewActions(func(action string) bool {
		return plugins.HasRole(action, framework.RoleDryRun) || slices.Contains(r.Harmless, action)
	})
	w.dryRun = func(session *pluginhost.Session) *restore.DryRun {
		plugins = session
		return &restore.DryRun{Actions: actions}
	}
	log.Info("dry run of a restore started", "backup", w.source.backup.Name, "storageLocation", w.source.location.Name)
	err = panics.Catch(log, func() (err error) {
		result, err = w.apply(objects, progress)
		return err
	})
	if err != nil {
		return summary, nil, err
	}
	outcomes, summary, err := file.Finish(actions.NotCalled())
	if err != nil {
		return summary, nil, err
	}
	log.Info("dry run of a restore done", "items", summary.Total())
	return summary, result, r.store(w, objects, outcomes, result)
}

// store stores the files of a dry run.
func (r *DryRuns) store(w *work, objects *store.Store, outcomes io.ReadSeeker, result *restore.Result) error {
	ctx, name := w.run.Ctx, w.object.Name
	if err := objects.PutRestoreDryRun(ctx, name, outcomes); err != nil {
		return fmt.Errorf("store the outcomes: %w", err)
	}
	if err := store.PutJSON(ctx, objects.PutRestoreResults, name, result.Results); err != nil {
		return fmt.Errorf("store the results: %w", err)
	}
	if err := w.putLog(objects); err != nil {
		return fmt.Errorf("store the log: %w", err)
	}
	return nil
}
