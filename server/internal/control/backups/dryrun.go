package backups

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/hashicorp/go-hclog"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/dryrun"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/backup"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/kube/panics"
)

// dryRunFinalizer keeps a dry run until its files in the object storage are deleted.
const dryRunFinalizer = "cleat.dev/dry-run"

// DryRuns carries out dry runs of backups: it finds out what each would hold, stores the manifest where the files of
// the backup would be, and deletes both some time later. A dry run that another process has left begins anew.
type DryRuns struct {
	// Controller is as for real backups, except that it has no journals, as no operation is started, and manifests of its
	// own.
	*Controller
	// Harmless are the actions that are called beside those with framework.RoleDryRun.
	Harmless []string
}

// Reconcile carries out or deletes one dry run, and returns when that has ended.
func (r *DryRuns) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	b := new(velerov1.Backup)
	if err := r.Get(ctx, req.NamespacedName, b); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	log := r.Log.With("backup", req.String())
	switch {
	case ctx.Err() != nil:
		return ctrl.Result{}, nil
	case b.DeletionTimestamp != nil:
		return ctrl.Result{}, r.remove(ctx, b, log)
	case run.MustDryRun(b, string(run.BackupPhase(b))):
		if err := r.carryOut(ctx, b, log); err != nil {
			return ctrl.Result{}, err
		}
	}
	if !run.DryRunEnded(b) {
		return ctrl.Result{}, nil
	}
	left, err := r.ExpireDryRun(ctx, b, b.Status.CompletionTimestamp, r.Now())
	return ctrl.Result{RequeueAfter: left}, err
}

// errReadOnly is why the files of a dry run stay.
var errReadOnly = errors.New("its backup storage location is read-only")

// remove deletes the files of a deleted dry run and then removes the finalizer.
func (r *DryRuns) remove(ctx context.Context, b *velerov1.Backup, log hclog.Logger) error {
	if !controllerutil.ContainsFinalizer(b, dryRunFinalizer) {
		return nil
	}
	switch err := r.removeFiles(ctx, b); {
	case errors.Is(err, run.ErrLocationNotFound), errors.Is(err, errReadOnly):
		log.Warn("cannot delete the files of the dry run", "error", err)
	case err != nil:
		return fmt.Errorf("delete the files of the dry run: %w", err)
	}
	before := b.DeepCopy()
	controllerutil.RemoveFinalizer(b, dryRunFinalizer)
	return client.IgnoreNotFound(
		r.Patch(ctx, b, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})),
	)
}

// removeFiles deletes the files of a dry run. It leaves those of a backup of that name alone.
func (r *DryRuns) removeFiles(ctx context.Context, b *velerov1.Backup) error {
	location, err := r.GetLocation(ctx, b.Spec.StorageLocation)
	if err != nil {
		return err
	}
	if run.ReadOnly(location) {
		return errReadOnly
	}
	if problem := run.LocationProblem(location); problem != "" {
		return errors.New(problem)
	}
	objects, err := r.Stores.Open(ctx, location)
	if err != nil {
		return err
	}
	return objects.RemoveTraces(ctx, b.Name, b.UID)
}

// carryOut begins and ends one dry run, unless it is left to another server.
func (r *DryRuns) carryOut(ctx context.Context, b *velerov1.Backup, log hclog.Logger) error {
	active := r.Runs.Begin(ctx, b.UID)
	defer active.End()
	w := &work{Controller: r.Controller, run: active, backup: b}
	return run.CarryOutDryRun(r.Cluster, active, b, log,
		func() error { return r.begin(ctx, w) },
		func() func(*velerov1.Backup) { return r.work(w, log) },
		func() []string { return b.Status.ValidationErrors })
}

// begin claims and validates a dry run. One that cannot be carried out has ended.
func (r *DryRuns) begin(ctx context.Context, w *work) error {
	return run.AdvanceDryRun(ctx, r.Cluster, w.backup, func(b *velerov1.Backup) error {
		if err := w.run.ClaimDryRun(b); err != nil {
			r.failed(err)(b)
			return nil
		}
		if velerov1.CancelRequested(b) {
			r.failed(run.ErrCancelled)(b)
			return nil
		}
		err := r.describeCluster(ctx, b)
		if err != nil {
			return err
		}
		if w.found, err = r.prepare(ctx, b); err != nil {
			return err
		}
		problems := b.Status.ValidationErrors
		if _, err := run.KeepDryRun(b); err != nil {
			problems = append(problems, err.Error())
		}
		b.Status.Expiration = nil // it is kept by the annotation
		if len(problems) > 0 {
			r.ended(b, velerov1.DryRunFailed, problems...)
			return nil
		}
		b.Status.Phase = velerov1.BackupPhaseFailedValidation
		b.Status.ValidationErrors = []string{"dry run: in progress; nothing is stored"}
		b.Status.StartTimestamp, b.Status.Progress = run.Timestamp(r.Now()), nil
		controllerutil.AddFinalizer(b, dryRunFinalizer) // from now on it may have files
		return nil
	})
}

// ended writes the end of a dry run.
func (r *DryRuns) ended(b *velerov1.Backup, state string, texts ...string) {
	b.Annotations[velerov1.DryRunAnnotation] = state
	if run.BackupPhase(b) != velerov1.BackupPhaseDeleting {
		b.Status.Phase = velerov1.BackupPhaseFailedValidation
	}
	b.Status.ValidationErrors = texts
	b.Status.CompletionTimestamp = run.Timestamp(r.Now())
}

// failed returns the end of a dry run that could not be carried out.
func (r *DryRuns) failed(reason error) func(*velerov1.Backup) {
	return func(b *velerov1.Backup) {
		r.ended(b, velerov1.DryRunFailed, "dry run failed: "+reason.Error())
	}
}

// work runs the engine and stores what it has found out. It returns the end of the dry run, nil if that is left to
// another server.
func (r *DryRuns) work(w *work, server hclog.Logger) (end func(*velerov1.Backup)) {
	var err error
	if w.log, err = r.LogOptions.Open("backup", w.backup, r.Log, r.Now); err != nil {
		return r.failed(err)
	}
	defer func() {
		if err := w.log.Close(); err != nil {
			server.Warn("could not remove the temporary file of the log", "error", err)
		}
	}()
	result, err := r.findOut(w)
	if err == nil {
		return func(b *velerov1.Backup) {
			r.ended(b, velerov1.DryRunDone, fmt.Sprintf("dry run: items that would be backed up: %d; nothing was stored; see "+
				"cleat manifest ls %s",
				result.Items, b.Name))
			b.Status.Warnings, b.Status.Errors = result.Results.Warnings.Count(), result.Results.Errors.Count()
			b.Status.Progress = &velerov1.BackupProgress{TotalItems: result.Items}
		}
	}
	if w.run.IsLeft(w.backup) {
		return nil
	}
	return r.failed(w.run.Reason(err))
}

// findOut runs the engine and stores the manifest, what is left out, the results and the log.
func (r *DryRuns) findOut(w *work) (result *backup.Result, err error) {
	log := w.log.Logger()
	progress := w.follow()
	defer func() { *w.backup = *progress.End() }()
	objects, err := r.patient(log).Open(w.run.Ctx, w.found.location)
	if err != nil {
		return nil, err
	}
	another, err := objects.BackupExists(w.run.Ctx, w.backup.Name)
	if err == nil && another {
		err = store.ErrBackupExists
	}
	if err != nil {
		return nil, err
	}
	w.dryRun = func(session *pluginhost.Session) *dryrun.Actions {
		return dryrun.NewActions(func(action string) bool {
			return session.HasRole(action, framework.RoleDryRun) || slices.Contains(r.Harmless, action)
		})
	}
	log.Info("dry run of a backup started", "storageLocation", w.found.location.Name)
	err = panics.Catch(log, func() (err error) {
		result, err = w.collect(progress, io.Discard)
		return err
	})
	if w.description != nil {
		defer w.description.close()
	}
	if err != nil {
		return nil, err
	}
	log.Info("dry run of a backup done", "items", result.Items)
	return result, r.store(w, objects, result)
}

// store stores the files of a dry run.
func (r *DryRuns) store(w *work, objects *store.Store, result *backup.Result) error {
	ctx, name := w.run.Ctx, w.backup.Name
	collection, err := store.EncodeJSON(result.Collection)
	if err != nil {
		return err
	}
	found := w.description.store(func(files map[string]io.ReadSeeker) error {
		all := map[string]io.ReadSeeker{dryrun.FileName: collection}
		maps.Copy(all, files)
		return objects.ReplaceArtifacts(ctx, name, all)
	}, w.log.Logger())
	if failures := found.Errors.Velero; len(failures) > 0 {
		return errors.New(failures[0])
	}
	if err := store.PutJSON(ctx, objects.PutBackupResults, name, result.Results); err != nil {
		return fmt.Errorf("store the results: %w", err)
	}
	log, err := w.log.Reader()
	if err != nil {
		return err
	}
	if err := objects.PutBackupLog(ctx, name, log); err != nil {
		return fmt.Errorf("store the log: %w", err)
	}
	return nil
}
