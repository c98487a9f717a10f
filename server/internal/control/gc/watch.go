package gc

import (
	"cmp"
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// defaultFrequency is the frequency of Velero.
const defaultFrequency = time.Hour

type requests = workqueue.TypedRateLimitingInterface[ctrl.Request]

// Setup makes a controller that reconciles a backup when it reads it first, when a restore from it ends, and at
// intervals.
func (r *Controller) Setup(b *ctrl.Builder) *ctrl.Builder {
	return b.For(&velerov1.Backup{}, builder.WithPredicates(predicate.Funcs{
		UpdateFunc: func(event.UpdateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	})).Watches(&velerov1.Restore{}, onEnd()).WatchesRawSource(source.Func(r.everyPeriod))
}

// onEnd requests a reconciliation of the backup of a restore that no longer reads it.
func onEnd() handler.EventHandler {
	look := func(restore *velerov1.Restore, pending requests) {
		pending.Add(ctrl.Request{NamespacedName: client.ObjectKey{Namespace: restore.Namespace,
			Name: restore.Spec.BackupName}})
	}
	return handler.Funcs{
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, pending requests) {
			before, ok := e.ObjectOld.(*velerov1.Restore)
			after, also := e.ObjectNew.(*velerov1.Restore)
			if ok && also && reads(before) && !reads(after) {
				look(after, pending)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, pending requests) {
			if restore, ok := e.Object.(*velerov1.Restore); ok {
				look(restore, pending)
			}
		},
	}
}

// everyPeriod requests a reconciliation of all expired backups at intervals, until ctx ends.
func (r *Controller) everyPeriod(ctx context.Context, pending requests) error {
	ticker := time.NewTicker(cmp.Or(max(r.Frequency, 0), defaultFrequency))
	go func() {
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				r.lookAtAll(ctx, pending)
			}
		}
	}()
	return nil
}

func (r *Controller) lookAtAll(ctx context.Context, pending requests) {
	var list velerov1.BackupList
	if err := r.List(ctx, &list, client.InNamespace(r.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		r.Log.Error("cannot look for expired backups; the next attempt follows", "error", err)
		return
	}
	for i := range list.Items {
		if b := &list.Items[i]; r.isExpired(b) {
			pending.Add(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b)})
		}
	}
}
