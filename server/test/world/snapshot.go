package world

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// Snapshot has the objects of a world at one time, by their keys "kind.group namespace/name".
type Snapshot map[string]*unstructured.Unstructured

// Kinds returns the number of kinds in the snapshot.
func (s Snapshot) Kinds() int {
	kinds := map[schema.GroupKind]bool{}
	for _, o := range s {
		kinds[o.GroupVersionKind().GroupKind()] = true
	}
	return len(kinds)
}

func key(o *unstructured.Unstructured) string {
	gk := o.GroupVersionKind().GroupKind()
	return fmt.Sprintf("%s %s/%s", gk, o.GetNamespace(), o.GetName())
}

// Snapshot reads all objects in the namespaces of the world, and the cluster-scoped objects with its label, of all
// kinds that the API server serves. It omits objects that controllers derive from others.
func (c *Client) Snapshot(ctx context.Context, s Spec) (Snapshot, error) {
	kinds, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	lists, err := kinds.ServerPreferredResources()
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	var (
		mu  sync.Mutex
		out = Snapshot{}
	)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(Workers)
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("discovery of %q: %w", list.GroupVersion, err)
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "create") || !slices.Contains(r.Verbs, "delete") {
				continue
			}
			g.Go(func() error {
				items, err := c.list(gctx, gv.WithResource(r.Name), r.Namespaced, s)
				if err != nil {
					return err
				}
				mu.Lock()
				defer mu.Unlock()
				for i := range items {
					if !derived(&items[i]) {
						out[key(&items[i])] = &items[i]
					}
				}
				return nil
			})
		}
	}
	return out, g.Wait()
}

func (c *Client) list(
	ctx context.Context, gvr schema.GroupVersionResource, namespaced bool, s Spec,
) ([]unstructured.Unstructured, error) {
	var opts metav1.ListOptions
	if !namespaced {
		opts.LabelSelector = Label + "=" + s.Prefix
	}
	list, err := c.dynamic.Resource(gvr).List(ctx, opts)
	if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", gvr, err)
	}
	if namespaced {
		return slices.DeleteFunc(list.Items, func(o unstructured.Unstructured) bool {
			return !strings.HasPrefix(o.GetNamespace(), s.Prefix+"-")
		}), nil
	}
	return list.Items, nil
}

// derived reports whether a controller has derived the object from others: events, pods of workloads, and endpoints of
// services that select pods.
func derived(o *unstructured.Unstructured) bool {
	switch o.GetKind() {
	case "Event", "Endpoints":
		return true
	case "Pod":
		return metav1.GetControllerOf(o) != nil
	case "EndpointSlice":
		return strings.HasSuffix(o.GetLabels()["endpointslice.kubernetes.io/managed-by"], ".k8s.io")
	}
	return false
}

// Settled takes snapshots until two in a row are equal, so that controllers have finished, and returns the last. It
// pauses between snapshots, longer on a slow machine.
func (c *Client) Settled(ctx context.Context, s Spec) (Snapshot, error) {
	began := time.Now()
	last, err := c.Snapshot(ctx, s)
	if err != nil {
		return nil, err
	}
	pause := settlePause + 2*time.Since(began)
	err = await(ctx, patience, func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		next, err := c.Snapshot(ctx, s)
		if err != nil {
			return err
		}
		differences := Compare(last, next)
		last = next
		if len(differences) > 0 {
			return fmt.Errorf("%d objects still change, e.g. %s", len(differences), differences[0])
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("the world does not settle: %w", err)
	}
	return last, nil
}

const settlePause = 1500 * time.Millisecond
