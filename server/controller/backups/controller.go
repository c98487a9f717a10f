package backups

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/go-hclog"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/backup"
	"github.com/cleat-dev/cleat/server/controller/metrics"
	"github.com/cleat-dev/cleat/server/kubeapi"
	"github.com/cleat-dev/cleat/server/resourcepolicy"
	"github.com/cleat-dev/cleat/server/run"
	"github.com/cleat-dev/cleat/server/runlog"
)

// Engine collects what a backup selects and writes the archive. An error is fatal; the errors of single items are in the
// result.
type Engine func(ctx context.Context, req backup.Request, archive io.Writer) (*backup.Result, error)

// Controller validates and runs backups: it takes them from ReadyToStart to the end of InProgress.
type Controller struct {
	*run.Cluster
	Runs          *run.Runs
	Stores        run.Stores
	Plugins       run.Plugins
	Engine        Engine
	ServerVersion ServerVersion
	Defaults      Defaults
	LogOptions    run.LogOptions
	Metrics       *metrics.Metrics
	Log           hclog.Logger
	Now           func() time.Time
}

// Reconcile runs a backup that is ready and returns when the run has ended. The queue admits no more backups than there are
// workers.
func (r *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var b velerov1.Backup
	if err := r.Get(ctx, req.NamespacedName, &b); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if b.Status.Phase != velerov1.BackupPhaseReadyToStart || b.DeletionTimestamp != nil || ctx.Err() != nil {
		return ctrl.Result{}, nil
	}
	log := r.Log.With("backup", req.String())

	// The run begins before the phase is written, so that every InProgress backup has one.
	active := r.Runs.Begin(ctx, b.UID)
	defer active.End()

	location, rules, err := r.start(ctx, &b)
	switch {
	case errors.Is(err, run.ErrNotFound), errors.Is(err, run.ErrPhaseChanged):
		log.Debug("not started", "reason", err)
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, r.notStarted(ctx, &b, fmt.Errorf("start the backup: %w", err))
	case run.BackupPhase(&b) == velerov1.BackupPhaseFailedValidation:
		log.Warn("the backup failed validation", "errors", b.Status.ValidationErrors)
		r.Metrics.BackupInvalid(&b)
		return ctrl.Result{}, nil
	}
	r.Metrics.BackupStarted(&b)
	r.work(active, &b, location, rules, log)
	return ctrl.Result{}, nil
}

// start writes InProgress or FailedValidation.
func (r *Controller) start(ctx context.Context, b *velerov1.Backup) (location *velerov1.BackupStorageLocation, rules *resourcepolicy.Policy, err error) {
	err = r.AdvanceBackup(ctx, b, func(b *velerov1.Backup) (err error) {
		if location, err = r.prepare(ctx, b); err != nil {
			return err
		}
		if rules, err = r.policy(ctx, b); err != nil {
			return err
		}
		b.Status.QueuePosition = 0
		b.Status.Phase = velerov1.BackupPhaseInProgress
		if len(b.Status.ValidationErrors) > 0 {
			b.Status.Phase = velerov1.BackupPhaseFailedValidation
			return nil
		}
		b.Status.StartTimestamp = run.Timestamp(r.Now())
		return nil
	})
	return location, rules, err
}

// notStarted fails a backup that could not be started, so that its slot is free. It returns an error, which leads to
// another attempt, if the reason is transient.
func (r *Controller) notStarted(ctx context.Context, b *velerov1.Backup, reason error) error {
	if kubeapi.Transient(reason) || ctx.Err() != nil {
		return reason
	}
	var now velerov1.Backup
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(b), &now); err != nil || now.UID != b.UID {
		return errors.Join(reason, client.IgnoreNotFound(err))
	}
	err := r.AdvanceBackup(ctx, &now, func(b *velerov1.Backup) error {
		run.FailedBackup(reason, r.Now())(b)
		return nil
	})
	if err == nil || errors.Is(err, run.ErrNotFound) || errors.Is(err, run.ErrPhaseChanged) {
		r.Log.Error("could not start the backup", "backup", b.Namespace+"/"+b.Name, "error", reason)
		return nil
	}
	return errors.Join(reason, err)
}

// work runs an InProgress backup and writes the phase that follows.
func (r *Controller) work(active *run.Run, b *velerov1.Backup, location *velerov1.BackupStorageLocation, rules *resourcepolicy.Policy, server hclog.Logger) {
	log, err := runlog.New(runlog.Options{Dir: r.LogOptions.Dir, JSON: r.LogOptions.JSON, Tee: r.Log.ResetNamed(""), Now: r.Now},
		"backup", client.ObjectKeyFromObject(b).String())
	if err != nil {
		r.finish(active, b, run.FailedBackup(err, r.Now()), server)
		return
	}
	defer func() {
		if err := log.Close(); err != nil {
			server.Warn("could not remove the temporary file of the log", "error", err)
		}
	}()
	work := work{Controller: r, run: active, backup: b, location: location, policy: rules, log: log}
	r.finish(active, b, work.do(), server)
}

// finish writes the phase after the run. It repeats transient failures as long as the server runs.
func (r *Controller) finish(active *run.Run, b *velerov1.Backup, end func(*velerov1.Backup), log hclog.Logger) {
	err := r.AdvanceBackup(active.Final, b, func(b *velerov1.Backup) error {
		end(b)
		return nil
	})
	switch {
	case errors.Is(err, run.ErrNotFound):
		r.forget(active, b, log)
		log.Info("the backup was deleted while it was in progress")
	case err != nil:
		log.Error("could not write the phase after the run; the next server marks the backup as Failed", "error", err)
	default:
		log.Info("the run has ended", "phase", b.Status.Phase, "errors", b.Status.Errors, "warnings", b.Status.Warnings, "reason", b.Status.FailureReason)
		r.Metrics.BackupRan(b)
	}
}

// forget deletes the files of a backup that was deleted during its run.
func (r *Controller) forget(active *run.Run, b *velerov1.Backup, log hclog.Logger) {
	if err := removeTraces(active.Final, r.Cluster, r.Stores, b); err != nil && !errors.Is(err, run.ErrLocationNotFound) {
		log.Error("could not delete the files of the deleted backup", "error", err)
	}
}

// encodeBackup returns the content of velero-backup.json, the Backup with apiVersion and kind.
func encodeBackup(b *velerov1.Backup) ([]byte, error) {
	b = b.DeepCopy()
	b.APIVersion, b.Kind = velerov1.SchemeGroupVersion.String(), "Backup"
	data, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("encode the backup: %w", err)
	}
	return append(data, '\n'), nil
}
