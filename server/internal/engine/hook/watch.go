package hook

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// errGone means that a pod no longer exists.
var errGone = errors.New("the pod was deleted")

// unseen is how long a created pod may be missing in a watch before it is read from the API server: it may have been
// deleted before the watch began.
const unseen = 30 * time.Second

// watch follows the pods of one restore in one namespace.
type watch struct {
	executor *Executor
	store    cache.Store

	mu      sync.Mutex
	waiting map[types.UID]chan struct{}
}

// newWatch begins to follow the pods with a label until ctx ends.
func newWatch(ctx context.Context, x *Executor, namespace, label string) *watch {
	w := &watch{executor: x, waiting: map[types.UID]chan struct{}{}}
	lists := cache.NewFilteredListWatchFromClient(x.pods.RESTClient(), "pods", namespace,
		func(o *metav1.ListOptions) { o.LabelSelector = label })
	var informer cache.Controller
	w.store, informer = cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: lists, ObjectType: &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: w.changed, UpdateFunc: func(_, pod any) { w.changed(pod) },
			DeleteFunc: func(pod any) {
				if last, ok := pod.(cache.DeletedFinalStateUnknown); ok {
					pod = last.Obj
				}
				w.changed(pod)
			},
		},
	})
	go informer.RunWithContext(ctx)
	return w
}

func (w *watch) changed(object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.waiting[pod.UID] <- struct{}{}: // a nil channel blocks
	default:
	}
}

// follow returns a channel that gets a value after changes of a pod, until stop is called.
func (w *watch) follow(uid types.UID) (changes <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting[uid] = c
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waiting, uid)
	}
}

// find returns the last state of a pod in the watch, or nil if there is none.
func (w *watch) find(pod Pod) *corev1.Pod {
	object, _, err := w.store.GetByKey(pod.Namespace + "/" + pod.Name)
	if found, ok := object.(*corev1.Pod); ok && err == nil && found.UID == pod.UID {
		return found
	}
	return nil
}

// ask reads a pod that is missing in the watch from the API server. It returns nil without an error if the request
// fails.
func (w *watch) ask(ctx context.Context, pod Pod) (*corev1.Pod, error) {
	found, err := w.executor.pods.Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && found.UID != pod.UID:
		return nil, errGone
	case err != nil:
		return nil, nil
	}
	return found, nil
}
