package snapshots

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
)

// Controller deletes the snapshots that a run has taken and its backup does not have, and the records of all snapshots
// of the run, when the run has ended. A request names the UID of a backup.
type Controller struct {
	*run.Cluster
	Stores  run.Stores
	Volumes *volumes.Hub
	Log     hclog.Logger
}

// Setup adds the watches of the controller to b: of records, and of the backups that they belong to.
func (r *Controller) Setup(b *ctrl.Builder) *ctrl.Builder {
	ofRecord := func(_ context.Context, object client.Object) []ctrl.Request {
		return request(object.GetLabels()[volumes.OwnerLabel])
	}
	ofBackup := func(_ context.Context, object client.Object) []ctrl.Request { return request(string(object.GetUID())) }
	return b.WatchesMetadata(metadata("ConfigMap"), handler.EnqueueRequestsFromMapFunc(ofRecord)).
		Watches(&velerov1.Backup{}, handler.EnqueueRequestsFromMapFunc(ofBackup),
			builder.WithPredicates(run.UnsettledBackups()))
}

func request(uid string) []ctrl.Request {
	if uid == "" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Name: uid}}}
}

func metadata(kind string) *metav1.PartialObjectMetadata {
	object := new(metav1.PartialObjectMetadata)
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return object
}

// Reconcile looks after the records of one backup, when its run has ended. An error leads to another attempt.
func (r *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	uid := types.UID(req.Name)
	if known, err := r.hasRecords(ctx, uid); err != nil || !known {
		return ctrl.Result{}, err
	}
	left, err := r.Volumes.Leftovers(ctx, uid, r.Log)
	if err != nil || left == nil {
		return ctrl.Result{}, err
	}
	b, err := r.backup(ctx, left.Backup, uid)
	if err != nil || b != nil && run.BackupPhase(b) == velerov1.BackupPhaseInProgress {
		return ctrl.Result{}, err // its run goes on, or is taken up again
	}
	open := func(ctx context.Context) (*store.Store, error) { return r.open(ctx, left, uid, b) }
	return ctrl.Result{}, r.Volumes.HandOver(ctx, left, b == nil || run.BackupPhase(b).Terminal(), open, r.Log)
}

// hasRecords reports whether the cache knows records of a backup. It may know them late: then an event follows.
func (r *Controller) hasRecords(ctx context.Context, uid types.UID) (bool, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	err := r.List(ctx, &list, client.InNamespace(r.Namespace), client.MatchingLabels{volumes.OwnerLabel: string(uid)})
	return len(list.Items) > 0, err
}

// backup returns a backup; nil if it was deleted.
func (r *Controller) backup(
	ctx context.Context, name types.NamespacedName, uid types.UID,
) (*velerov1.Backup, error) {
	var b velerov1.Backup
	err := r.Live.Get(ctx, name, &b)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get backup %s: %w", name.Name, err)
	}
	if err != nil || b.UID != uid || b.DeletionTimestamp != nil {
		return nil, nil
	}
	return &b, nil
}

// open opens the storage location of a backup, which is b unless it was deleted.
func (r *Controller) open(
	ctx context.Context, left *volumes.Leftovers, uid types.UID, b *velerov1.Backup,
) (*store.Store, error) {
	location, err := r.GetLocation(ctx, left.StorageLocation)
	if errors.Is(err, run.ErrLocationNotFound) {
		return nil, fmt.Errorf("whether backup %s has snapshots that its run has left is not known: %w; create the "+
			"location again, or delete the ConfigMaps with the label %s=%s",
			left.Backup.Name, err, volumes.OwnerLabel, uid)
	}
	if err != nil {
		return nil, err
	}
	objects, err := r.Stores.Open(ctx, location)
	if err != nil || b == nil {
		return objects, err
	}
	return objects.Of(b), nil
}
