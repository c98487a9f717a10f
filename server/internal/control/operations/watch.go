package operations

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
)

// requests is the work queue of a controller.
type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Wakes notifies the controllers that operations have ended. Wake must not be called before the controllers have
// started.
type Wakes struct {
	mu     sync.Mutex
	queues map[string]requests // by the kind of the owner
}

// From returns the source of events for the controller of a kind of owners.
func (w *Wakes) From(kind string) source.Source {
	return source.Func(func(_ context.Context, pending requests) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.queues == nil {
			w.queues = map[string]requests{}
		}
		w.queues[kind] = pending
		return nil
	})
}

// Wake requests a reconciliation of an owner of operations. It does not block.
func (w *Wakes) Wake(owner *operation.Owner) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if pending := w.queues[owner.Kind]; pending != nil {
		pending.Add(ctrl.Request{NamespacedName: client.ObjectKey{Namespace: owner.Namespace, Name: owner.Name}})
	}
}

// Setup adds the watches of the controller to b: of journals, and of the backups and restores to which they belong.
func (r *Leftovers) Setup(b *ctrl.Builder) *ctrl.Builder {
	phaseOfBackup := func(object client.Object) string {
		b, ok := object.(*velerov1.Backup)
		if !ok || queueOrRun(run.BackupPhase(b)) {
			return ""
		}
		return string(b.Status.Phase)
	}
	phaseOfRestore := func(object client.Object) string {
		restore, ok := object.(*velerov1.Restore)
		if !ok || run.RestorePhase(restore) == velerov1.RestorePhaseNew ||
			run.RestorePhase(restore) == velerov1.RestorePhaseInProgress {
			return ""
		}
		return string(restore.Status.Phase)
	}
	return b.WatchesMetadata(journalMetadata(),
		handler.EnqueueRequestsFromMapFunc(func(_ context.Context, page client.Object) []ctrl.Request {
			if uid := page.GetLabels()[operation.UIDLabel]; uid != "" && page.GetDeletionTimestamp() == nil {
				return []ctrl.Request{{NamespacedName: client.ObjectKey{Name: uid}}}
			}
			return nil
		})).Watches(&velerov1.Backup{}, onPhase(phaseOfBackup)).Watches(&velerov1.Restore{}, onPhase(phaseOfRestore))
}

// onPhase requests a reconciliation of the journal of a backup or restore whose run has ended, or that was deleted.
// phase returns "" for one whose run has not ended.
func onPhase(phase func(client.Object) string) handler.EventHandler {
	look := func(object client.Object, pending requests) {
		pending.Add(ctrl.Request{NamespacedName: client.ObjectKey{Name: string(object.GetUID())}})
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, pending requests) {
			if phase(e.Object) != "" {
				look(e.Object, pending)
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, pending requests) {
			before, after := phase(e.ObjectOld), phase(e.ObjectNew)
			deleted := e.ObjectNew.GetDeletionTimestamp() != nil && e.ObjectOld.GetDeletionTimestamp() == nil
			if after != before && after != "" || deleted {
				look(e.ObjectNew, pending)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, pending requests) { look(e.Object, pending) },
	}
}

// journalMetadata returns an object for the metadata of a ConfigMap. Nothing else of a journal is watched.
func journalMetadata() *metav1.PartialObjectMetadata {
	page := new(metav1.PartialObjectMetadata)
	page.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	return page
}

// hasJournal reports whether a journal with this UID is in the cache. If it comes late, an event follows.
func (r *Leftovers) hasJournal(ctx context.Context, uid string) (bool, error) {
	var pages metav1.PartialObjectMetadataList
	pages.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	err := r.List(ctx, &pages, client.InNamespace(r.Namespace), client.MatchingLabels{operation.UIDLabel: uid})
	return len(pages.Items) > 0, err
}
