package backupqueue

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	ctrlsource "sigs.k8s.io/controller-runtime/pkg/source"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
)

// requests is the work queue of a controller.
type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

// queueRequest returns the only request of the controller: each decision is about all Backups.
func queueRequest() reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Name: "queue"}}
}

// Setup adds the watches of the controller to b. wake, if not nil, sends an event when the plugins change.
func (q *Controller) Setup(b *ctrl.Builder, wake <-chan event.GenericEvent) *ctrl.Builder {
	b = b.Watches(&velerov1.Backup{}, q.onBackup()).Watches(&velerov1.Restore{}, q.onRestore()).WatchesMetadata(
		namespaceMetadata(), q.onNamespace(),
	)
	if q.Locations != nil {
		b = b.Watches(&velerov1.BackupStorageLocation{}, q.onLocation())
	}
	onEvent := handler.Funcs{GenericFunc: func(_ context.Context, _ event.GenericEvent, pending requests) {
		q.wake(pending)
	}}
	if wake != nil {
		b = b.WatchesRawSource(ctrlsource.Channel(wake, onEvent))
	}
	q.slots.lost = make(chan event.GenericEvent, 1)
	return b.WatchesRawSource(ctrlsource.Channel(q.slots.lost, onEvent))
}

func (q *Controller) wake(pending requests) {
	now := q.Now()
	q.backlog.event.Store(&now)
	q.woken.Add(1)
	pending.Add(queueRequest())
}

// onBackup requests a decision for each change of a Backup that matters, except for the queue's own writes.
func (q *Controller) onBackup() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, pending requests) {
			if b, ok := e.Object.(*velerov1.Backup); ok && concerns(b) && !q.view.isOwn(b) {
				q.wake(pending)
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, pending requests) {
			before, ok := e.ObjectOld.(*velerov1.Backup)
			after, also := e.ObjectNew.(*velerov1.Backup)
			if ok && also && !q.view.isOwn(after) && matters(before, after) {
				q.wake(pending)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, pending requests) {
			if b, ok := e.Object.(*velerov1.Backup); ok && concerns(b) {
				q.wake(pending)
			}
		},
	}
}

// onRestore requests a decision when a restore ends, or when its namespaces become known. The start of a restore
// admits nothing.
func (q *Controller) onRestore() handler.EventHandler {
	return handler.Funcs{
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, pending requests) {
			before, ok := e.ObjectOld.(*velerov1.Restore)
			after, also := e.ObjectNew.(*velerov1.Restore)
			if ok && also && queue.Restoring(before) &&
				(!queue.Restoring(after) || before.Annotations[queue.ScopeAnnotation] != after.Annotations[queue.ScopeAnnotation]) {
				q.wake(pending)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, pending requests) {
			if r, ok := e.Object.(*velerov1.Restore); ok && queue.Restoring(r) {
				q.wake(pending)
			}
		},
	}
}

// onNamespace requests a decision when a namespace is created or deleted, because patterns may then match others, and
// when its labels change, which a policy may read.
func (q *Controller) onNamespace() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, pending requests) { q.wake(pending) },
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, pending requests) { q.wake(pending) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, pending requests) {
			if !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) {
				q.wake(pending)
			}
		},
	}
}

// concerns reports whether a Backup is part of the queue, or blocks others.
func concerns(b *velerov1.Backup) bool { return queue.InLine(b) || queue.Occupies(b) }

// matters reports whether a change of a Backup may change a decision. Progress of a running one does not.
func matters(before, after *velerov1.Backup) bool {
	switch {
	case before.UID != after.UID:
		return true
	case !concerns(before) && !concerns(after):
		return false
	case run.BackupPhase(before) != run.BackupPhase(after),
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil):
		return true
	case queue.Occupies(after):
		return before.Annotations[queue.OccupiedAnnotation] != after.Annotations[queue.OccupiedAnnotation]
	case !queue.Waits(after):
		return false
	default:
		return before.Status.QueuePosition != after.Status.QueuePosition ||
			!maps.Equal(before.Labels, after.Labels) || !maps.Equal(before.Annotations, after.Annotations) ||
			!equality.Semantic.DeepEqual(&before.Spec, &after.Spec)
	}
}

// namespaceMetadata returns an object for the metadata of a Namespace. The queue reads nothing else of it.
func namespaceMetadata() *metav1.PartialObjectMetadata {
	namespace := new(metav1.PartialObjectMetadata)
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return namespace
}
