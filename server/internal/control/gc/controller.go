package gc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

// Controller requests the deletion of expired backups: of each backup when the server reads it first, and of all at
// intervals. It skips a backup while a restore reads it, while its deletion is requested, or while its location is
// read-only or not available.
type Controller struct {
	*run.Cluster
	Frequency time.Duration // the time between two searches for expired backups; 0 or less for an hour, as in Velero
	Events    events.EventRecorder
	Log       hclog.Logger
	Now       func() time.Time

	// patience is how long a worker waits for a deletion; 0 for ten minutes. A deletion that takes longer continues
	// without it.
	patience time.Duration
}

const (
	// Workers is the number of backups whose deletion is requested at once. Each worker waits until its request was
	// processed, so that the requests of users never wait for more than this number.
	Workers = 8
	// defaultPatience is the default of Controller.patience.
	defaultPatience = 10 * time.Minute
	poll            = 100 * time.Millisecond
)

// Values of the label velero.io/gc-failure.
const (
	locationNotFound  = "BSLNotFound"
	locationCannotGet = "BSLCannotGet"
	locationReadOnly  = "BSLReadOnly"
)

// Reconcile requests the deletion of one backup if it has expired, and waits until the request was processed.
func (r *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	b := new(velerov1.Backup)
	if err := r.Get(ctx, req.NamespacedName, b); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !r.isExpired(b) {
		return ctrl.Result{}, nil
	}
	log := r.Log.With("backup", req.String(), "expiration", b.Status.Expiration)
	restore, err := r.reader(ctx, b)
	if err != nil {
		return ctrl.Result{}, err
	}
	if restore != nil {
		log.Info("the backup has expired; it is deleted when the restore has ended that reads it", "restore", restore.Name)
		r.Events.Eventf(b, restore, corev1.EventTypeNormal, "KeptForRestore", "GarbageCollection",
			"the backup has expired; it is deleted when restore %s, which reads it, has ended", restore.Name)
		return ctrl.Result{}, nil // the end of the restore triggers another reconciliation
	}
	if may, err := r.checkLocation(ctx, b, log); err != nil || !may {
		return ctrl.Result{}, err
	}
	if requested, err := r.isRequested(ctx, b); err != nil || requested {
		return ctrl.Result{}, err
	}
	request := newRequest(b)
	if err := r.Create(ctx, request); err != nil {
		return ctrl.Result{}, fmt.Errorf("request the deletion of expired backup %s: %w", b.Name, err)
	}
	log.Info("the backup has expired, requested its deletion", "request", request.Name)
	return ctrl.Result{}, r.await(ctx, b, request, log)
}

// isExpired reports whether a backup has ended and expired. Dry runs are deleted by their own rules.
func (r *Controller) isExpired(b *velerov1.Backup) bool {
	phase := run.BackupPhase(b)
	return b.Status.Expiration != nil && !b.Status.Expiration.After(r.Now()) && b.DeletionTimestamp == nil &&
		!velerov1.IsDryRun(b) &&
		(phase.Terminal() || phase == velerov1.BackupPhaseDeleting)
}

// reader returns a restore from the backup that has not ended, or nil.
func (r *Controller) reader(ctx context.Context, b *velerov1.Backup) (*velerov1.Restore, error) {
	var list velerov1.RestoreList
	if err := r.List(ctx, &list, client.InNamespace(b.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the restores of backup %s: %w", b.Name, err)
	}
	for i := range list.Items {
		if restore := &list.Items[i]; restore.Spec.BackupName == b.Name && reads(restore) {
			return restore.DeepCopy(), nil
		}
	}
	return nil, nil //nolint:nilnil // there is none and that is right
}

// reads reports whether a restore reads its backup, or will.
func reads(restore *velerov1.Restore) bool {
	if restore.DeletionTimestamp != nil || velerov1.IsDryRun(restore) {
		return false
	}
	switch restore.Annotations[velerov1.RehearsalAnnotation] {
	case "", velerov1.RehearsalDone:
		return !run.RestorePhase(restore).Terminal()
	default: // its Restore may not have begun, and its report is stored beside the backup
		return true
	}
}

// checkLocation reports whether a backup can be deleted from its location. If not, a label of the backup has the
// reason, as in Velero.
func (r *Controller) checkLocation(ctx context.Context, b *velerov1.Backup, log hclog.Logger) (bool, error) {
	if run.NeverStored(b) {
		return true, r.label(ctx, b, "", log)
	}
	location, err := r.GetLocation(ctx, b.Spec.StorageLocation)
	switch {
	case errors.Is(err, run.ErrLocationNotFound):
		return false, r.label(ctx, b, locationNotFound, log)
	case err != nil:
		return false, errors.Join(err, r.label(ctx, b, locationCannotGet, log))
	case run.LocationProblem(location) != "":
		log.Debug("the backup has expired; it is deleted when its location is available", "reason",
			run.LocationProblem(location))
		return false, nil
	case run.ReadOnly(location):
		return false, r.label(ctx, b, locationReadOnly, log)
	}
	return true, r.label(ctx, b, "", log)
}

// label writes the reason why a backup cannot be deleted to its label, unless it is there already; "" removes the
// label.
func (r *Controller) label(ctx context.Context, b *velerov1.Backup, reason string, log hclog.Logger) error {
	if b.Labels[velerov1.GCFailureLabel] == reason {
		return nil
	}
	before := b.DeepCopy()
	if b.Labels == nil {
		b.Labels = map[string]string{}
	}
	b.Labels[velerov1.GCFailureLabel] = reason
	if reason == "" {
		delete(b.Labels, velerov1.GCFailureLabel)
	} else {
		log.Warn("the backup has expired and cannot be deleted", "reason", reason, "location", b.Spec.StorageLocation)
	}
	if err := r.Patch(ctx, b, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write label %s of backup %s: %w", velerov1.GCFailureLabel, b.Name, err)
	}
	return nil
}

// isRequested reports whether the deletion of a backup is requested or in progress.
func (r *Controller) isRequested(ctx context.Context, b *velerov1.Backup) (bool, error) {
	var list velerov1.DeleteBackupRequestList
	if err := r.List(ctx, &list, client.InNamespace(b.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list the requests to delete backup %s: %w", b.Name, err)
	}
	for i := range list.Items {
		request := &list.Items[i]
		uid := request.Labels[velerov1.BackupUIDLabel]
		if request.Spec.BackupName == b.Name && (uid == "" || uid == string(b.UID)) &&
			request.Status.Phase != velerov1.DeleteBackupRequestPhaseProcessed {
			return true, nil
		}
	}
	return false, nil
}

// newRequest returns a request to delete a backup, as Velero makes it.
func newRequest(b *velerov1.Backup) *velerov1.DeleteBackupRequest {
	return &velerov1.DeleteBackupRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.Namespace, GenerateName: b.Name + "-",
			Labels: map[string]string{velerov1.BackupNameLabel: velerov1.ValidLabelValue(b.Name),
				velerov1.BackupUIDLabel: string(b.UID)},
			Annotations: map[string]string{velerov1.ExpiredAnnotation: b.Status.Expiration.UTC().Format(time.RFC3339)},
		},
		Spec: velerov1.DeleteBackupRequestSpec{BackupName: b.Name},
	}
}

// await waits until the backup is deleted, its bucket keeps it, or the request has failed. The controller of the request
// logs the reason.
func (r *Controller) await(
	ctx context.Context, b *velerov1.Backup, request *velerov1.DeleteBackupRequest, log hclog.Logger,
) error {
	err := wait.PollUntilContextTimeout(ctx, poll, cmp.Or(r.patience, defaultPatience), false,
		func(ctx context.Context) (bool, error) {
			var now velerov1.Backup
			err := r.Get(ctx, client.ObjectKeyFromObject(b), &now)
			if apierrors.IsNotFound(err) || err == nil && now.UID != b.UID {
				return true, nil
			}
			if err != nil {
				return false, err
			}
			if now.Annotations[velerov1.KeptAnnotation] != "" { // others do not wait until the bucket lets it go
				return true, nil
			}
			err = r.Get(ctx, client.ObjectKeyFromObject(request), request) // it may not be in the cache yet
			return err == nil && request.Status.Phase == velerov1.DeleteBackupRequestPhaseProcessed, client.IgnoreNotFound(err)
		})
	switch {
	case ctx.Err() != nil: // the server stops; the request stays
		return nil
	case wait.Interrupted(err):
		log.Warn("the deletion of the expired backup takes long; others no longer wait for it", "request",
			request.Name)
		return nil
	}
	return err
}
