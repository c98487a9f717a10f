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

// BackupEngine collects what a backup selects and writes the archive. An error is fatal; what went
// wrong with single items is in the result.
type Engine func(ctx context.Context, req backup.Request, archive io.Writer) (*backup.Result, error)

// Backups starts and runs backups: the phases from ReadyToStart to the end of InProgress.
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

// Reconcile starts a backup that is ready and returns when its run has ended. The queue admits no
// more than there are workers.
func (r *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var b velerov1.Backup
	if err := r.Get(ctx, req.NamespacedName, &b); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if b.Status.Phase != velerov1.BackupPhaseReadyToStart || b.DeletionTimestamp != nil || ctx.Err() != nil {
		return ctrl.Result{}, nil
	}
	log := r.Log.With("backup", req.String())

	// Registered before the phase is written: nobody ever sees an InProgress backup that is not.
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

// start writes the phase with which the work begins, or FailedValidation.
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

// notStarted ends a backup that could not be started for a reason that stays, so that it gives its
// place back. What passes is tried again.
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
		r.Log.Error("the backup could not be started", "backup", b.Namespace+"/"+b.Name, "error", reason)
		return nil
	}
	return errors.Join(reason, err)
}

// work does the work of an InProgress backup and writes the phase that comes after it.
func (r *Controller) work(active *run.Run, b *velerov1.Backup, location *velerov1.BackupStorageLocation, rules *resourcepolicy.Policy, server hclog.Logger) {
	log, err := runlog.New(runlog.Options{Dir: r.LogOptions.Dir, JSON: r.LogOptions.JSON, Tee: r.Log.ResetNamed(""), Now: r.Now},
		"backup", client.ObjectKeyFromObject(b).String())
	if err != nil {
		r.finish(active, b, run.FailedBackup(err, r.Now()), server)
		return
	}
	defer func() {
		if err := log.Close(); err != nil {
			server.Warn("the temporary file of the log could not be removed", "error", err)
		}
	}()
	work := work{Controller: r, run: active, backup: b, location: location, policy: rules, log: log}
	r.finish(active, b, work.do(), server)
}

// finish writes the phase after the run. It does not give up while the server lives.
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
		log.Error("the end of the run could not be written; the next server marks the backup as Failed", "error", err)
	default:
		log.Info("the run has ended", "phase", b.Status.Phase, "errors", b.Status.Errors, "warnings", b.Status.Warnings, "reason", b.Status.FailureReason)
		r.Metrics.BackupRan(b)
	}
}

// forget removes from the bucket what a backup put there that was deleted meanwhile.
func (r *Controller) forget(active *run.Run, b *velerov1.Backup, log hclog.Logger) {
	if err := removeTraces(active.Final, r.Cluster, r.Stores, b); err != nil && !errors.Is(err, run.ErrLocationNotFound) {
		log.Error("what the deleted backup had stored could not be removed", "error", err)
	}
}

// encodeBackup is velero-backup.json: the Backup with apiVersion and kind.
func encodeBackup(b *velerov1.Backup) ([]byte, error) {
	b = b.DeepCopy()
	b.APIVersion, b.Kind = velerov1.SchemeGroupVersion.String(), "Backup"
	data, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("encode the backup: %w", err)
	}
	return append(data, '\n'), nil
}
