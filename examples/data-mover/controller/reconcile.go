package controller

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/cleat-dev/cleat/examples/data-mover/api/v1"
	"github.com/cleat-dev/cleat/examples/data-mover/engine"
)

// reconciler claims transfers and starts their work.
type reconciler struct {
	options
	client  client.Client
	live    client.Reader // reads from the API server instead of the cache
	mover   *engine.Mover
	id      string          // of this process, as a holder
	working context.Context // ends when the process is stopped
	slots   chan struct{}
	active  sync.WaitGroup

	mu   sync.Mutex
	runs map[types.NamespacedName]*run
	seen map[types.NamespacedName]sighting
}

// sighting is a version of a transfer that another controller holds.
type sighting struct {
	version string
	at      time.Time // when this process read it first
}

// Reconcile processes one transfer. It does not wait for work.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	own := r.run(request.NamespacedName)
	var transfer v1.DataTransfer
	err := r.client.Get(ctx, request.NamespacedName, &transfer)
	switch {
	case apierrors.IsNotFound(err):
		r.forget(request.NamespacedName)
		if own != nil {
			own.cancel(errGone)
		}
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, err
	case transfer.Status.Ended():
		r.forget(request.NamespacedName)
		return r.cleanUp(ctx, &transfer)
	case own != nil:
		if transfer.Spec.Cancel {
			own.cancel(errCancelled)
		}
		return ctrl.Result{RequeueAfter: r.lease}, nil // the holder may lose its lease
	}
	if left := r.leaseLeft(&transfer); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	return r.claim(ctx, &transfer)
}

// claim makes this process the holder of a transfer and starts the work. A transfer that is to be cancelled ends here.
func (r *reconciler) claim(ctx context.Context, transfer *v1.DataTransfer) (ctrl.Result, error) {
	next := transfer.DeepCopy()
	status := &next.Status
	status.UpdatedAt = metav1.NowMicro()
	if next.Spec.Cancel {
		status.Phase, status.Holder, status.Message = v1.Cancelled, "", errCancelled.Error()
		return again(r.client.Status().Update(ctx, next))
	}
	select {
	case r.slots <- struct{}{}:
	default:
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	status.Phase, status.Holder, status.Message = v1.InProgress, r.id, "starting"
	status.Attempts++
	if status.StartedAt.IsZero() {
		status.StartedAt = status.UpdatedAt
	}
	var refused error
	if next.Spec.Direction == v1.Restore && !status.Prepared {
		refused = engine.CheckEmpty(r.directory(next.Spec))
		status.Prepared = refused == nil
	}
	if err := r.client.Status().Update(ctx, next); err != nil {
		<-r.slots
		return again(err)
	}
	ctrl.LoggerFrom(ctx).Info("claimed", "direction", next.Spec.Direction, "claim", next.Spec.Claim, "attempt",
		status.Attempts)
	r.start(ctx, next, refused)
	return ctrl.Result{}, nil
}

// again requeues a transfer that could not be updated because the cache was stale, or another controller was faster.
func again(err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return ctrl.Result{}, err
}

// leaseLeft returns how long another controller may still hold a transfer without a change of the status. It does not
// compare clocks of two machines, but uses the time since this process first read the same version.
func (r *reconciler) leaseLeft(transfer *v1.DataTransfer) time.Duration {
	if transfer.Status.Holder == "" {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(transfer)
	last := r.seen[key]
	if last.version != transfer.ResourceVersion {
		last = sighting{transfer.ResourceVersion, time.Now()}
		r.seen[key] = last
	}
	return r.lease - time.Since(last.at)
}

// cleanUp deletes the files of a failed backup in the bucket, and a transfer that ended long ago.
func (r *reconciler) cleanUp(ctx context.Context, transfer *v1.DataTransfer) (ctrl.Result, error) {
	if transfer.Spec.Direction == v1.Backup && transfer.Status.Phase != v1.Completed {
		if err := r.remove(ctx, transfer); err != nil {
			return ctrl.Result{}, err
		}
	}
	if left := r.keep - time.Since(transfer.Status.UpdatedAt.Time); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(r.client.Delete(ctx, transfer))
}

// remove requests the deletion of a transfer's snapshot.
func (r *reconciler) remove(ctx context.Context, transfer *v1.DataTransfer) error {
	return client.IgnoreAlreadyExists(
		r.client.Create(ctx, v1.New(transfer.Namespace, v1.Deletion(transfer.Spec.Claim, transfer.Spec.Snapshot))),
	)
}

// directory returns the directory of a claim. The definition of DataTransfers refuses names that are paths.
func (r *reconciler) directory(spec v1.Spec) string {
	return filepath.Join(r.volumes, spec.Claim.Namespace, spec.Claim.Name)
}

// run returns the work of this process on a transfer, or nil.
func (r *reconciler) run(key types.NamespacedName) *run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs[key]
}

func (r *reconciler) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seen, key)
}
