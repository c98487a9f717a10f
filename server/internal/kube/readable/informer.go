package readable

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Informers makes the informers of a cache. Those of custom resources of one group leave out what cannot be read.
type Informers struct {
	Scheme    *runtime.Scheme
	Group     string
	Namespace string // of these custom resources; their informers have no selectors
	// Live returns a reader from the API server. It is called when a list has failed.
	Live    func() (client.Reader, error)
	LeftOut func(error)
}

// New returns an informer; it is for cache.Options.
func (i Informers) New(
	from toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers,
) toolscache.SharedIndexInformer {
	kinds, _, err := i.Scheme.ObjectKinds(object)
	both, ok := from.(*toolscache.ListWatch)
	if err == nil && ok && len(kinds) == 1 && kinds[0].Group == i.Group && both.ListWithContextFunc != nil {
		list := both.ListWithContextFunc
		both.ListWithContextFunc = func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			found, err := list(ctx, options)
			if !IsUnreadable(err) {
				return found, err
			}
			return i.readable(ctx, kinds[0], options)
		}
	}
	return toolscache.NewSharedIndexInformer(from, object, resync, indexers)
}

func (i Informers) readable(
	ctx context.Context, kind schema.GroupVersionKind, options metav1.ListOptions,
) (runtime.Object, error) {
	live, err := i.Live()
	if err != nil {
		return nil, err
	}
	kind.Kind += "List"
	object, err := i.Scheme.New(kind)
	if err != nil {
		return nil, err
	}
	list, _ := object.(client.ObjectList) // every list of the scheme is one
	return list, Readable(ctx, live, i.Scheme, kind, list, i.LeftOut, client.InNamespace(i.Namespace),
		&client.ListOptions{Raw: &options})
}
