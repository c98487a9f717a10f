package repositories

import (
	"context"
	"slices"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

// Setup adds the watches of the controller to b: of repositories, of locations that become available, and of
// repositories whose maintenance has ended, after which others can begin. ended has an event for a job of this process
// that has ended. Jobs of the cluster are not watched: an account without rights to them would keep the server from
// starting.
func (r *Controller) Setup(b *ctrl.Builder, ended <-chan event.GenericEvent) *ctrl.Builder {
	return b.For(&velerov1.BackupRepository{}).
		Watches(&velerov1.BackupStorageLocation{}, handler.EnqueueRequestsFromMapFunc(
			func(ctx context.Context, l client.Object) []ctrl.Request {
				return r.requests(ctx, func(of *velerov1.BackupRepository) bool {
					return of.Spec.BackupStorageLocation == l.GetName()
				})
			}), builder.WithPredicates(locationChanged())).
		Watches(&velerov1.BackupRepository{}, handler.EnqueueRequestsFromMapFunc(
			func(ctx context.Context, _ client.Object) []ctrl.Request {
				return r.requests(ctx, func(of *velerov1.BackupRepository) bool { return !r.Now().Before(r.due(of)) })
			}), builder.WithPredicates(claimRemoved())).
		WatchesRawSource(source.Channel(ended, &handler.EnqueueRequestForObject{}))
}

// requests returns the repositories that match, those that are due for the longest time first.
func (r *Controller) requests(ctx context.Context, match func(*velerov1.BackupRepository) bool) []ctrl.Request {
	var list velerov1.BackupRepositoryList
	if err := r.List(ctx, &list, client.InNamespace(r.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil // they are looked at again after some time
	}
	var found []*velerov1.BackupRepository
	for i := range list.Items {
		if match(&list.Items[i]) {
			found = append(found, &list.Items[i])
		}
	}
	slices.SortStableFunc(found, func(a, b *velerov1.BackupRepository) int { return r.due(a).Compare(r.due(b)) })
	var requests []ctrl.Request
	for _, of := range found {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(of)})
	}
	return requests
}

// locationChanged passes locations that may have become usable.
func locationChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*velerov1.BackupStorageLocation)
		after, also := e.ObjectNew.(*velerov1.BackupStorageLocation)
		return ok && also && (before.Status.Phase != after.Status.Phase || before.Spec.AccessMode != after.Spec.AccessMode)
	}}
}

// claimRemoved passes repositories whose maintenance has ended.
func claimRemoved() predicate.Predicate {
	never := func(event.CreateEvent) bool { return false }
	return predicate.Funcs{CreateFunc: never, UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*velerov1.BackupRepository)
		after, also := e.ObjectNew.(*velerov1.BackupRepository)
		return ok && also && run.MaintenanceOf(before) != nil && run.MaintenanceOf(after) == nil
	}}
}
