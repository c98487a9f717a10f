package deletions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/metrics"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/deletion"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/kube/panics"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

// Controller carries out DeleteBackupRequests. It repeats a request that a former server has begun.
type Controller struct {
	*run.Cluster
	Stores      run.Stores
	StoreOutage time.Duration // how long a deletion waits for its object store
	Plugins     run.Plugins
	Engine      Engine
	Volumes     *volumes.Hub
	SpoolDir    string // for archives that are read; empty means the system's directory for temporary files
	Metrics     *metrics.Metrics
	Events      events.EventRecorder
	Log         hclog.Logger
	Now         func() time.Time
}

// Setup makes a controller of requests. A change of the phase, which only this controller writes, does not lead to
// another look.
func (r *Controller) Setup(b *ctrl.Builder) *ctrl.Builder {
	return b.For(&velerov1.DeleteBackupRequest{},
		builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*velerov1.DeleteBackupRequest)
			after, also := e.ObjectNew.(*velerov1.DeleteBackupRequest)
			return ok && also && before.Status.Phase == after.Status.Phase
		}})).Watches(&velerov1.Backup{}, r.onRelease())
}

type requestQueue = workqueue.TypedRateLimitingInterface[ctrl.Request]

// Engine calls the DeleteItemActions of plugins; it is deletion.Run with its Deps.
type Engine func(context.Context, deletion.Request) error

const (
	// keepRequest is how long a DeleteBackupRequest with errors is kept, from its creation.
	keepRequest = 24 * time.Hour

	maxFailure = 4000 // bytes of a reason in an annotation
)

// refusal is a permanent reason not to delete a backup.
type refusal string

func (r refusal) Error() string { return string(r) }

// Reconcile carries out one request. The status of the request gets the reason why the backup could not be deleted. An
// error means that the status could not be determined or written.
func (r *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	request := new(velerov1.DeleteBackupRequest)
	if err := r.Get(ctx, req.NamespacedName, request); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if request.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	if request.Status.Phase == velerov1.DeleteBackupRequestPhaseProcessed {
		return r.expire(ctx, request)
	}
	log := r.Log.With("backup", request.Spec.BackupName, "request", req.String())

	backup, location, err := r.begin(ctx, request, log)
	record := &audit{request: request, backup: backup}
	if errors.Is(err, run.ErrNotFound) && hasBegun(request) {
		// A former server has deleted the backup, but not the requests.
		record.report(r.Log, r.Events, outcomeDeleted, nil)
		return ctrl.Result{}, r.removeRequests(ctx, request, nil)
	}
	if errors.Is(err, run.ErrNotFound) {
		err = refusal("backup not found")
	}
	if errors.Is(err, run.ErrLocationAway) {
		log.Debug("the deletion goes on when the backup storage location is available")
		return ctrl.Result{RequeueAfter: run.WaitDelay}, r.wait(ctx, request, "waits: "+run.LocationProblem(location))
	}
	if kept := keptBy(err); kept != nil {
		return r.keep(ctx, request, backup, kept, log)
	}
	_, refused := errors.AsType[refusal](err)
	if refused && isKept(request) && backup != nil { // it was not refused when it was made
		return ctrl.Result{RequeueAfter: run.WaitDelay}, r.wait(ctx, request, "waits: "+err.Error())
	}
	if refused {
		record.report(r.Log, r.Events, outcomeRefused, err)
		return ctrl.Result{RequeueAfter: keepRequest}, r.process(ctx, request, err)
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("begin to delete the backup: %w", err)
	}
	log.Info("deleting the backup")
	r.Metrics.DeletionStarted(backup)
	err = panics.Catch(log, func() error { return r.delete(ctx, record, location, log) })
	kept := keptBy(err)
	if kept != nil {
		r.Metrics.DeletionEnded(backup, nil)
		return r.keep(ctx, request, backup, kept, log)
	}
	r.Metrics.DeletionEnded(backup, err)
	switch {
	case err == nil:
		record.report(r.Log, r.Events, outcomeDeleted, nil)
		if len(record.unread) > 0 {
			return ctrl.Result{RequeueAfter: keepRequest}, r.processUnread(ctx, record)
		}
		return ctrl.Result{}, r.removeRequests(ctx, request, nil)
	case ctx.Err() != nil: // the server stops; the next one continues
		return ctrl.Result{}, nil
	default:
		record.report(r.Log, r.Events, outcomeFailed, err)
		if err := r.noteFailure(ctx, backup, err); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: keepRequest}, r.process(ctx, request, err)
	}
}

// noteFailure writes to the backup why its deletion has failed, which outlives the request.
func (r *Controller) noteFailure(ctx context.Context, backup *velerov1.Backup, reason error) error {
	before := backup.DeepCopy()
	metav1.SetMetaDataAnnotation(&backup.ObjectMeta, velerov1.DeletionFailureAnnotation,
		shorten.Text(reason.Error(), maxFailure))
	if err := r.Patch(ctx, backup, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write to the backup why its deletion has failed: %w", err)
	}
	return nil
}

// begin checks the request and moves it to InProgress and its backup to Deleting. It returns run.ErrNotFound if the
// backup does not exist or is not the one with the uid of the request's label. Otherwise it returns the backup, even
// with an error, and its location with run.ErrLocationAway. It returns a keptError if the bucket keeps the backup.
func (r *Controller) begin(
	ctx context.Context, request *velerov1.DeleteBackupRequest, log hclog.Logger,
) (*velerov1.Backup, *velerov1.BackupStorageLocation, error) {
	if request.Spec.BackupName == "" {
		return nil, nil, refusal("spec.backupName is required")
	}
	if err := kubeapi.CheckName("spec.backupName", request.Spec.BackupName); err != nil {
		return nil, nil, refusal(err.Error())
	}
	backup, err := r.backup(ctx, r.Client, request)
	if errors.Is(err, run.ErrNotFound) || err == nil && run.BackupBusy(run.BackupPhase(backup)) {
		backup, err = r.backup(ctx, r.Live, request) // the cache may be too old to refuse the request
	}
	if err != nil {
		return nil, nil, err
	}
	if run.BackupBusy(run.BackupPhase(backup)) {
		return backup, nil, refusal("backup is still in progress")
	}
	if err := r.unused(ctx, request, backup); err != nil {
		return backup, nil, err
	}
	location, err := r.writableLocation(ctx, backup)
	if errors.Is(err, run.ErrLocationAway) && !hasBegun(request) && !isKept(request) {
		err = refusal("cannot delete backup because " + run.LocationProblem(location))
	}
	if err != nil {
		return backup, location, err
	}
	if err := r.mustNotBeKept(ctx, backup, location, log); err != nil {
		return backup, location, err
	}
	if err := r.label(ctx, request, backup); err != nil {
		return backup, nil, err
	}
	if err := r.removeRequests(ctx, request, request); err != nil {
		return backup, nil, err
	}
	if run.BackupPhase(backup) != velerov1.BackupPhaseDeleting {
		err = r.AdvanceBackup(ctx, backup, func(b *velerov1.Backup) error {
			if b.Annotations == nil {
				b.Annotations = make(map[string]string)
			}
			b.Annotations[run.DeletedInPhaseAnnotation] = string(run.BackupPhase(b))
			delete(b.Annotations, velerov1.KeptAnnotation)
			b.Status.Phase = velerov1.BackupPhaseDeleting
			b.Status.QueuePosition = 0
			return nil
		})
	}
	switch {
	case errors.Is(err, run.ErrPhaseChanged):
		return backup, nil, refusal("backup is still in progress")
	case err != nil: // run.ErrNotFound as well
		return backup, nil, fmt.Errorf("set the backup's phase to Deleting: %w", err)
	}
	return backup, location, nil
}

// hasBegun reports whether a server has begun to carry out a request. One that was created in that phase says so by its
// maker only.
func hasBegun(request *velerov1.DeleteBackupRequest) bool {
	return request.Status.Phase == velerov1.DeleteBackupRequestPhaseInProgress && !velerov1.IsAsCreated(request)
}

// backup reads the backup of a request. It returns run.ErrNotFound if that does not exist or is another one than the
// label says.
func (r *Controller) backup(
	ctx context.Context, reader client.Reader, request *velerov1.DeleteBackupRequest,
) (*velerov1.Backup, error) {
	backup := new(velerov1.Backup)
	err := reader.Get(ctx, client.ObjectKey{Namespace: request.Namespace, Name: request.Spec.BackupName}, backup)
	if apierrors.IsNotFound(err) || err == nil && request.Labels[velerov1.BackupUIDLabel] != "" &&
		request.Labels[velerov1.BackupUIDLabel] != string(backup.UID) {
		return nil, run.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("get the backup: %w", err)
	}
	return backup, nil
}

// writableLocation returns the location of a backup, or nil if the backup was never stored. If the location is not
// available, the error is run.ErrLocationAway.
func (r *Controller) writableLocation(
	ctx context.Context, backup *velerov1.Backup,
) (*velerov1.BackupStorageLocation, error) {
	name := backup.Spec.StorageLocation
	if run.NeverStored(backup) {
		return nil, nil
	}
	location, err := r.GetLocation(ctx, name)
	if errors.Is(err, run.ErrLocationNotFound) {
		return nil, refusal(fmt.Sprintf("backup storage location %s not found", name))
	}
	if err != nil {
		return nil, err
	}
	if run.ReadOnly(location) {
		return nil, refusal(fmt.Sprintf("cannot delete backup because backup storage location %s is currently in read-only "+
			"mode", name))
	}
	if run.LocationProblem(location) != "" {
		return location, run.ErrLocationAway
	}
	return location, nil
}

// delete deletes everything that belongs to a Deleting backup, and the backup last, so that another attempt finds what
// it needs.
func (r *Controller) delete(
	ctx context.Context, record *audit, location *velerov1.BackupStorageLocation, log hclog.Logger,
) error {
	backup := record.backup
	ctx = pluginhost.ForRun(ctx, string(backup.UID))
	// The restores are deleted first, because their files are found through the backup.
	if err := r.deleteRestores(ctx, record); err != nil {
		return err
	}
	if location != nil {
		if err := r.deleteStored(ctx, record, location, log); err != nil {
			return err
		}
	}
	err := r.Delete(ctx, backup, client.Preconditions{UID: &backup.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the Backup: %w", err)
	}
	return nil
}
