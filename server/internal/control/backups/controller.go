package backups

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	bucket "github.com/cleat-dev/cleat/server/internal/bucket/location"
	"github.com/cleat-dev/cleat/server/internal/control/metrics"
	"github.com/cleat-dev/cleat/server/internal/control/policy"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/backup"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
)

// Engine collects what a backup selects and writes the archive. An error is fatal; the errors of single items are in
// the result.
type Engine func(ctx context.Context, req backup.Request, archive io.Writer) (*backup.Result, error)

// Admissions says which backups hold the slots that their phases promise. The queue implements it.
type Admissions interface {
	// MayStart reports whether a ready backup may be started now, or an InProgress one taken up.
	MayStart(ctx context.Context, b *velerov1.Backup) (bool, error)
	// Refused gives the slot of a backup to others, because it cannot be written. It returns when to try again.
	Refused(b *velerov1.Backup, err error) time.Duration
}

// Controller validates and runs backups: it takes them from ReadyToStart to the end of InProgress. A backup that
// another process has left InProgress starts anew, under the same name and in the same slot, until its attempts are
// used up.
type Controller struct {
	*run.Cluster
	Runs          *run.Runs
	Stores        run.Stores
	StoreOutage   time.Duration // how long a run waits for its object store
	Plugins       run.Plugins
	Manifests     *policy.Manifests
	Journals      *operation.Journals // nil for none
	Monitor       *operation.Monitor  // nil in dry runs
	Volumes       *volumes.Hub        // in dry runs without records
	Engine        Engine
	Admissions    Admissions // nil if the queue is disabled
	ServerVersion ServerVersion
	Defaults      Defaults
	LogOptions    run.LogOptions
	Logs          *run.Logs            // nil for dry runs
	Events        events.EventRecorder // nil for none
	Metrics       *metrics.Metrics
	Log           hclog.Logger
	Now           func() time.Time

	ends    ends
	waiting waiting
}

// Reconcile runs a backup that is ready, or that another process has left, and returns when the run has ended. The
// queue admits fewer backups than there are workers, so that some are left for what takes no time. An InProgress backup
// does not run in this process: its run would occupy the request.
func (r *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	log := r.Log.With("backup", req.String())
	var b velerov1.Backup
	err := r.Get(ctx, req.NamespacedName, &b)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if gone := r.ends.replaced(req.NamespacedName, b.UID); gone != nil {
		r.forget(ctx, gone, log)
	}
	if err != nil {
		r.waiting.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if !queue.Waits(&b) {
		r.waiting.forget(req.NamespacedName)
	}
	phase := run.BackupPhase(&b)
	starts := phase == velerov1.BackupPhaseReadyToStart || phase == velerov1.BackupPhaseInProgress
	switch {
	case ctx.Err() != nil:
		return ctrl.Result{}, nil
	case queue.Waits(&b) && velerov1.CancelRequested(&b):
		return r.cancelWaiting(ctx, &b, log)
	case queue.Waits(&b) && b.DeletionTimestamp == nil:
		return r.validateWaiting(ctx, &b, log)
	case !starts:
		return ctrl.Result{}, nil
	}
	// The run begins before the phase is written, so that every InProgress backup has one.
	active := r.Runs.Begin(ctx, b.UID)
	defer active.End()

	if end := r.ends.of(&b); end != nil {
		return r.finish(active, &b, end, log)
	}
	if b.DeletionTimestamp != nil {
		return ctrl.Result{}, r.endDeleted(active, &b, log)
	}
	if r.Admissions != nil {
		switch may, err := r.Admissions.MayStart(ctx, &b); {
		case err != nil:
			return ctrl.Result{}, err
		case !may && phase == velerov1.BackupPhaseInProgress:
			log.Info("not taken up yet", "reason", "a backup that runs has its slot or overlaps it")
			return ctrl.Result{RequeueAfter: run.WaitDelay}, nil
		case !may:
			return r.giveBack(ctx, &b, log)
		}
	}
	found, err := r.start(ctx, active, &b)
	switch {
	case run.Superseded(err):
		log.Debug("not started", "reason", err)
		return ctrl.Result{}, nil
	case errors.Is(err, run.ErrLocationAway):
		log.Info("not taken up yet", "reason", err)
		return ctrl.Result{RequeueAfter: run.WaitDelay}, nil
	case err != nil:
		return r.unwritable(&b, r.notStarted(ctx, &b, fmt.Errorf("start the backup: %w", err)))
	case run.BackupPhase(&b) == velerov1.BackupPhaseQueued:
		log.Info("back in the queue", "reason", run.LocationProblem(found.location))
		return ctrl.Result{}, nil
	case run.BackupPhase(&b) == velerov1.BackupPhaseFailedValidation:
		log.Warn("the backup failed validation", "errors", b.Status.ValidationErrors)
		r.Metrics.BackupInvalid(&b)
		return ctrl.Result{}, nil
	case run.BackupPhase(&b) == velerov1.BackupPhaseFailed:
		log.Warn("the backup failed", "reason", b.Status.FailureReason)
		r.Metrics.BackupRan(&b)
		return ctrl.Result{}, nil
	}
	if attempt := r.Runs.DescribeAttempt(&b); attempt != "" {
		text := attempt + ": the server of the last one was stopped or killed; the backup starts anew"
		log.Warn(text)
		if r.Events != nil {
			r.Events.Eventf(&b, nil, corev1.EventTypeWarning, "TakenUp", "Start", "%s", text)
		}
	}
	r.Metrics.BackupStarted(&b)
	return r.work(active, &b, found, log)
}

// cancelWaiting fails a backup that was cancelled before its turn.
func (r *Controller) cancelWaiting(ctx context.Context, b *velerov1.Backup, log hclog.Logger) (ctrl.Result, error) {
	err := r.AdvanceBackup(ctx, b, func(b *velerov1.Backup) error {
		b.Status.QueuePosition = 0
		run.FailedBackup(run.ErrCancelled, r.Now())(b)
		return nil
	})
	if run.Superseded(err) {
		return ctrl.Result{}, nil
	}
	if err == nil {
		log.Info("cancelled before its turn")
	}
	return ctrl.Result{}, err
}

// endDeleted ends a backup that another process has left InProgress and that is deleted, but kept by the finalizer of
// somebody. It would hold its slot for as long.
func (r *Controller) endDeleted(active *run.Run, b *velerov1.Backup, log hclog.Logger) error {
	if run.BackupPhase(b) != velerov1.BackupPhaseInProgress {
		return nil
	}
	err := r.AdvanceBackup(active.Final, b, func(b *velerov1.Backup) error {
		run.MarkPartialData(b)
		run.FailedBackup(run.ErrDeleted, r.Now())(b)
		return nil
	})
	if run.Superseded(err) {
		return nil
	}
	if err == nil {
		log.Info("ended, because it was deleted while no server worked on it")
	}
	return err
}

// giveBack returns a ready backup to the queue, because others have got its slot while it could not be written.
func (r *Controller) giveBack(ctx context.Context, b *velerov1.Backup, log hclog.Logger) (ctrl.Result, error) {
	err := r.AdvanceBackup(ctx, b, func(b *velerov1.Backup) error {
		queue.Return(b)
		return nil
	})
	if run.Superseded(err) {
		return ctrl.Result{}, nil
	}
	if err != nil {
		return r.unwritable(b, fmt.Errorf("return the backup to the queue: %w", err))
	}
	log.Info("back in the queue", "reason", "a backup that runs has its slot or overlaps it")
	return ctrl.Result{}, nil
}

// unwritable returns err. If it says that the API server refuses to write the backup, the slot goes to another one
// instead, and a later attempt follows.
func (r *Controller) unwritable(b *velerov1.Backup, err error) (ctrl.Result, error) {
	if r.Admissions == nil || !run.Refused(err) {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: r.Admissions.Refused(b, err)}, nil
}

// start claims the backup and writes InProgress, FailedValidation, Queued if its location is not available, or Failed
// if all its attempts were made.
//
// Whether the location is available is read from its status, in the same cache as by the queue. So the queue does not
// admit a backup that comes back from here until the status has changed.
func (r *Controller) start(ctx context.Context, active *run.Run, b *velerov1.Backup) (found prepared, err error) {
	err = r.AdvanceBackup(ctx, b, func(b *velerov1.Backup) (err error) {
		admitted := b.DeepCopy()
		claim, takeUp := active.Start(), run.BackupPhase(b) == velerov1.BackupPhaseInProgress
		if velerov1.CancelRequested(b) {
			b.Status.QueuePosition = 0
			run.FailedBackup(run.ErrCancelled, r.Now())(b)
			if takeUp {
				run.MarkPartialData(b)
			}
			return nil
		}
		if takeUp {
			if claim, err = active.TakeUp(b); err != nil {
				run.FailedBackup(err, r.Now())(b)
				run.MarkPartialData(b)
				return nil
			}
		}
		if err := r.describeCluster(ctx, b); err != nil {
			return err
		}
		if found, err = r.prepare(ctx, b); err != nil {
			return err
		}
		b.Status.QueuePosition = 0
		b.Status.Phase = velerov1.BackupPhaseInProgress
		switch problems := b.Status.ValidationErrors; {
		case found.away() && takeUp:
			return run.ErrLocationAway
		case found.away() && !found.refused(b):
			*b = *admitted
			queue.Return(b)
			return nil
		case len(problems) > 0 && takeUp: // it was valid when it was started first
			b.Status.ValidationErrors = nil
			run.FailedBackup(fmt.Errorf("the backup could not be taken up: %s", strings.Join(problems, "; ")), r.Now())(b)
			run.MarkPartialData(b)
			return nil
		case len(problems) > 0:
			b.Status.Phase = velerov1.BackupPhaseFailedValidation
			return nil
		}
		claim.Set(b)
		metav1.SetMetaDataAnnotation(&b.ObjectMeta, velerov1.FilesAnnotation, "") // nothing is stored yet
		delete(b.Annotations, velerov1.StagedAnnotation)
		if bucket.WritesOnce(found.location) {
			metav1.SetMetaDataAnnotation(&b.ObjectMeta, velerov1.StagedAnnotation, strconv.Itoa(claim.Attempt))
		}
		b.Status.StartTimestamp, b.Status.Progress = run.Timestamp(r.Now()), nil
		run.CountOperationsOfBackup(b, operation.Counts{})
		return nil
	})
	return found, err
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
		if run.BackupPhase(b) == velerov1.BackupPhaseInProgress {
			run.MarkPartialData(b)
		}
		run.FailedBackup(reason, r.Now())(b)
		return nil
	})
	if err == nil || run.Superseded(err) {
		r.Log.Error("could not start the backup", "backup", b.Namespace+"/"+b.Name, "error", reason)
		return nil
	}
	return errors.Join(err, reason) // whether the slot is lost depends on err
}

// work runs an InProgress backup and writes the phase that follows, unless the run is left to another server.
func (r *Controller) work(
	active *run.Run, b *velerov1.Backup, found prepared, server hclog.Logger,
) (ctrl.Result, error) {
	log, err := r.LogOptions.Open("backup", b, r.Log, r.Now)
	if err != nil {
		return r.finish(active, b, run.FailedBackup(err, r.Now()), server)
	}
	defer func() {
		if err := log.Close(); err != nil {
			server.Warn("could not remove the temporary file of the log", "error", err)
		}
	}()
	r.Logs.Begin(b.UID, log.Logger())
	work := work{Controller: r, run: active, backup: b, found: found, log: log}
	end := work.do()
	if end == nil {
		work.operations.Forget()
		r.Logs.End(b.UID)
		server.Info("the backup is left to the next server", "reason", context.Cause(active.Ctx))
		return ctrl.Result{}, nil
	}
	return r.finish(active, b, end, server)
}

// finish writes the phase after the run. It repeats transient failures as long as the server runs. If the write fails
// otherwise, the end is kept for another attempt.
func (r *Controller) finish(
	active *run.Run, b *velerov1.Backup, end func(*velerov1.Backup), log hclog.Logger,
) (ctrl.Result, error) {
	r.ends.keep(b, end)
	err := r.AdvanceBackup(active.Final, b, func(b *velerov1.Backup) error {
		end(b)
		return nil
	})
	switch {
	case errors.Is(err, run.ErrNotFound):
		r.forget(active.Final, b, log)
		log.Info("the backup was deleted while it was in progress")
	case errors.Is(err, run.ErrPhaseChanged):
		log.Warn("the end of the run was not written", "reason", err)
	case err != nil:
		log.Error("could not write the phase after the run; it is written later", "error", err)
		return r.unwritable(b, fmt.Errorf("write the phase after the run: %w", err))
	default:
		log.Info("the run has ended", "phase", b.Status.Phase, "errors", b.Status.Errors, "warnings", b.Status.Warnings,
			"reason", b.Status.FailureReason)
		r.Metrics.BackupRan(b)
	}
	r.ends.written(b)
	if err != nil || run.BackupPhase(b) == velerov1.BackupPhaseFailed {
		r.Logs.End(b.UID)
	}
	return ctrl.Result{}, nil
}

// patient returns the stores of runs.
func (r *Controller) patient(log hclog.Logger) run.Stores {
	return run.PatientStores{Stores: r.Stores, For: r.StoreOutage, Log: log}
}

// forget deletes the files of a backup that was deleted before the end of its run was written.
func (r *Controller) forget(ctx context.Context, b *velerov1.Backup, log hclog.Logger) {
	if err := removeTraces(ctx, r.Cluster, r.patient(log), b); err != nil && !errors.Is(err, run.ErrLocationNotFound) {
		log.Error("could not delete the files of the deleted backup", "error", err)
	}
}

// encodeBackup returns the content of velero-backup.json, the Backup with apiVersion and kind.
func encodeBackup(b *velerov1.Backup) ([]byte, error) {
	b = b.DeepCopy()
	run.SetWaits(b, "") // which are over when it is read
	b.APIVersion, b.Kind = velerov1.SchemeGroupVersion.String(), "Backup"
	data, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("encode the backup: %w", err)
	}
	return append(data, '\n'), nil
}
