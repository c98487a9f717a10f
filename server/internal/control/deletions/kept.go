package deletions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/locks"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

const (
	// lookAgain is the longest time after which a kept backup is looked at again: its hold may have ended.
	lookAgain = 10 * time.Minute
	// afterLock is how long after the end of a lock a deletion is attempted, because clocks differ.
	afterLock = time.Second
)

// keptError is returned for a backup that its bucket keeps. It is not a failure: the deletion goes on by itself.
type keptError struct{ store.Kept }

func (e *keptError) Error() string { return velerov1.KeptText(e.annotation()) }

// annotation returns the value of velerov1.KeptAnnotation.
func (e *keptError) annotation() string {
	if e.Held {
		return velerov1.KeptByHold
	}
	return e.Until.UTC().Format(time.RFC3339)
}

// keptBy returns the keptError for an error of the object store; nil if it is another one.
func keptBy(err error) *keptError {
	if kept, ok := errors.AsType[*keptError](err); ok {
		return kept
	}
	if locked, ok := errors.AsType[*framework.LockedError](err); ok {
		return &keptError{store.Kept{Until: locked.Until, Held: locked.Held}}
	}
	return nil
}

// mustNotBeKept returns a keptError if the bucket keeps a file of the backup. Nothing of a backup is deleted before all
// of it can be, so that one that is kept can be restored.
func (r *Controller) mustNotBeKept(
	ctx context.Context, backup *velerov1.Backup, location *velerov1.BackupStorageLocation, log hclog.Logger,
) error {
	if location == nil {
		return nil
	}
	if backup.Annotations[velerov1.HoldAnnotation] == "true" {
		return &keptError{store.Kept{Held: true}}
	}
	if !mayKeep(location) {
		return nil
	}
	objects, err := run.PatientStores{Stores: r.Stores, For: r.StoreOutage, Log: log}.Open(ctx, location)
	if err != nil {
		return nil //nolint:nilerr // the deletion fails with it
	}
	metadata, err := objects.BackupMetadata(ctx, backup.Name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil //nolint:nilerr // the deletion fails with it, or checks again
	}
	if err == nil {
		if stored, err := decodeStored(backup.Name, metadata); err == nil && !run.Owns(backup, stored) {
			return nil // they stay anyway
		}
	}
	return r.checkKept(ctx, objects, backup)
}

// mayKeep reports whether the bucket of a location may keep files, which its last validation has found.
func mayKeep(location *velerov1.BackupStorageLocation) bool {
	found := locks.Of(location)
	return found == nil || found.Lock != objectstore.No
}

// checkKept returns a keptError if the bucket keeps a file of the backup, whose files they are.
func (r *Controller) checkKept(ctx context.Context, objects *store.Store, backup *velerov1.Backup) error {
	kept, err := objects.Kept(ctx, backup.Name, r.Now())
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		return refusal(fmt.Sprintf("cannot delete backup because it is not known whether its bucket keeps it: %v", err))
	case kept.Held || !kept.Until.IsZero():
		return &keptError{kept}
	}
	return nil
}

// keep notes that the bucket keeps a backup, and has its request looked at again. The phase of the backup stays, so that
// it can be restored meanwhile.
func (r *Controller) keep(
	ctx context.Context, request *velerov1.DeleteBackupRequest, backup *velerov1.Backup, kept *keptError, log hclog.Logger,
) (ctrl.Result, error) {
	value, text := kept.annotation(), kept.Error()
	if backup.Annotations[velerov1.KeptAnnotation] != value {
		before := backup.DeepCopy()
		metav1.SetMetaDataAnnotation(&backup.ObjectMeta, velerov1.KeptAnnotation, value)
		if err := r.Patch(ctx, backup, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("write to the backup until when it is kept: %w", err)
		}
		log.Info("the bucket keeps the backup; it is deleted afterwards", "state", text)
		if r.Events != nil {
			r.Events.Eventf(backup, request, corev1.EventTypeNormal, "Kept", "Deletion",
				"%s: the bucket keeps the backup, which is deleted afterwards", text)
		}
	}
	if request.Annotations[velerov1.KeptAnnotation] != value || !slices.Equal(request.Status.Errors, []string{text}) {
		before := request.DeepCopy()
		metav1.SetMetaDataAnnotation(&request.ObjectMeta, velerov1.KeptAnnotation, value)
		request.Status.Errors = []string{text}
		if request.Status.Phase == "" {
			request.Status.Phase = velerov1.DeleteBackupRequestPhaseNew
		}
		if err := r.Patch(ctx, request, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("write to the request until when the backup is kept: %w", err)
		}
	}
	left := lookAgain
	if !kept.Held {
		left = min(left, max(kept.Until.Sub(r.Now()), 0)+afterLock)
	}
	return ctrl.Result{RequeueAfter: left}, nil
}

// isKept reports whether a request waits because the bucket keeps the backup.
func isKept(request *velerov1.DeleteBackupRequest) bool {
	return request.Annotations[velerov1.KeptAnnotation] != ""
}

// onRelease requests another look at the deletion of a backup whose hold has changed.
func (r *Controller) onRelease() handler.EventHandler {
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, pending requestQueue) {
			for _, annotation := range []string{velerov1.HoldAnnotation, velerov1.HeldAnnotation} {
				if e.ObjectOld.GetAnnotations()[annotation] != e.ObjectNew.GetAnnotations()[annotation] {
					r.lookAtRequests(ctx, e.ObjectNew, pending)
					return
				}
			}
		},
	}
}

func (r *Controller) lookAtRequests(ctx context.Context, backup client.Object, pending requestQueue) {
	var list velerov1.DeleteBackupRequestList
	if err := r.List(ctx, &list, client.InNamespace(backup.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return // they are looked at after a time
	}
	for i := range list.Items {
		if request := &list.Items[i]; request.Spec.BackupName == backup.GetName() && isKept(request) {
			pending.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(request)})
		}
	}
}
