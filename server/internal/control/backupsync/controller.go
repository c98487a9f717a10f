package backupsync

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
)

// Controller lists the bucket of each available BackupStorageLocation at intervals, and creates and deletes Backups of
// the cluster to match it. It reads a read-only location like others.
type Controller struct {
	*run.Cluster
	API    *kubeapi.Client // creates Backups
	Stores run.Stores
	// Backups returns the cache of the Backups of the cluster. A copy of each Backup in every pass would cost more
	// than the listing.
	Backups func(context.Context) (cache.Store, error)
	Period  time.Duration // for locations without a period, or with a negative one; 0 for never
	Log     hclog.Logger
	Now     func() time.Time

	mu     sync.Mutex
	memory map[client.ObjectKey]*memory
}

// memory is the result of earlier passes over a location. Only one pass at a time uses it.
type memory struct {
	spec    *velerov1.BackupStorageLocationSpec // of the last pass that succeeded; nil if there was none
	skipped skipped
}

// Setup makes a controller that reconciles a location when its spec or its phase changes, and at its period.
func (r *Controller) Setup(b *ctrl.Builder) *ctrl.Builder {
	return b.For(&velerov1.BackupStorageLocation{},
		builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*velerov1.BackupStorageLocation)
			after, also := e.ObjectNew.(*velerov1.BackupStorageLocation)
			return ok && also && (before.Status.Phase != after.Status.Phase || !equality.Semantic.DeepEqual(before.Spec,
				after.Spec))
		}}))
}

// Reconcile synchronises one location if it is due, and requeues it for the next time. While the location is not
// available, Reconcile waits for the change of its phase.
func (r *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	location := new(velerov1.BackupStorageLocation)
	if err := r.Get(ctx, req.NamespacedName, location); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.forget(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	period := r.period(location)
	if run.LocationProblem(location) != "" || period == 0 || location.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	known := r.remember(req.NamespacedName)
	if left := r.left(location, known, period); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	spec := location.Spec.DeepCopy() // the reply to the patch may have a newer one
	if err := r.sync(ctx, location, known); err != nil {
		return ctrl.Result{}, fmt.Errorf("synchronise backup storage location %s with the cluster: %w", location.Name, err)
	}
	known.spec = spec
	before := location.DeepCopy()
	location.Status.LastSyncedTime = run.Timestamp(r.Now().UTC())
	if err := r.Patch(ctx, location, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("write status.lastSyncedTime of backup storage location %s: %w", location.Name, err)
	}
	return ctrl.Result{RequeueAfter: period}, nil
}

// period returns the time between two passes; 0 for never.
func (r *Controller) period(location *velerov1.BackupStorageLocation) time.Duration {
	if own := location.Spec.BackupSyncPeriod; own != nil && own.Duration >= 0 {
		return own.Duration
	}
	return max(0, r.Period)
}

// left returns the time until a location is due. It is due at once when its spec has changed, and when the clock was
// set back.
func (r *Controller) left(location *velerov1.BackupStorageLocation, known *memory, period time.Duration) time.Duration {
	last, now := location.Status.LastSyncedTime, r.Now()
	if last == nil || known.spec != nil && !equality.Semantic.DeepEqual(*known.spec, location.Spec) {
		return 0
	}
	return min(last.Add(period).Sub(now), period)
}

func (r *Controller) remember(location client.ObjectKey) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.memory == nil {
		r.memory = map[client.ObjectKey]*memory{}
	}
	if r.memory[location] == nil {
		r.memory[location] = new(memory)
	}
	return r.memory[location]
}

func (r *Controller) forget(location client.ObjectKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.memory, location)
}
