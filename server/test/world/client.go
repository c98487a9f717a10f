package world

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Workers is the number of concurrent requests of a client.
const Workers = 16

// Client creates and deletes worlds and takes snapshots of them.
type Client struct {
	dynamic dynamic.Interface
	config  *rest.Config
}

// NewClient returns a client for the cluster of a kubeconfig file. The client has no rate limit.
func NewClient(kubeconfig string) (*Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", kubeconfig, err)
	}
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	d, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", config.Host, err)
	}
	return &Client{dynamic: d, config: config}, nil
}

// Config returns the client's configuration, which other clients can use too.
func (c *Client) Config() *rest.Config { return c.config }

// Create creates the objects: first the cluster-scoped ones, and then, when the API server serves the custom resources
// and the namespaces have their default service account, the others with concurrent requests. Owners are created before
// the objects that they own. done is incremented for each object.
func (c *Client) Create(ctx context.Context, objects []Object, done *atomic.Int64) error {
	var later [3][]Object // by depth in the owner chain
	for _, o := range objects {
		if o.GetNamespace() != "" {
			depth := 0
			if o.OwnerName != "" {
				depth = 1
				if o.GetKind() == "Component" {
					depth = 2
				}
			}
			later[depth] = append(later[depth], o)
			continue
		}
		if err := c.create(ctx, o, nil); err != nil {
			return err
		}
		done.Add(1)
	}
	if err := c.awaitReady(ctx, objects); err != nil {
		return err
	}
	for _, level := range later {
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(Workers)
		for _, o := range level {
			g.Go(func() error {
				owner, err := c.owner(gctx, o)
				if err != nil {
					return err
				}
				if err := c.create(gctx, o, owner); err != nil {
					return err
				}
				done.Add(1)
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) resource(o Object) dynamic.ResourceInterface {
	gvr := o.GroupVersionKind().GroupVersion().WithResource(o.Resource)
	if ns := o.GetNamespace(); ns != "" {
		return c.dynamic.Resource(gvr).Namespace(ns)
	}
	return c.dynamic.Resource(gvr)
}

func (c *Client) owner(ctx context.Context, o Object) (*metav1.OwnerReference, error) {
	if o.OwnerName == "" {
		return nil, nil
	}
	var resource, name string
	for i := range o.OwnerName {
		if o.OwnerName[i] == '/' {
			resource, name = o.OwnerName[:i], o.OwnerName[i+1:]
		}
	}
	gvr := schema.GroupVersionResource{Group: Group, Version: "v1", Resource: resource}
	owner, err := c.dynamic.Resource(gvr).Namespace(o.GetNamespace()).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("owner %s of %s: %w", o.OwnerName, o.GetName(), err)
	}
	return &metav1.OwnerReference{APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: name,
		UID: owner.GetUID()}, nil
}

func (c *Client) create(ctx context.Context, o Object, owner *metav1.OwnerReference) error {
	u := o.DeepCopy()
	if owner != nil {
		u.SetOwnerReferences([]metav1.OwnerReference{*owner})
	}
	r := c.resource(o)
	var err error
	if o.Apply {
		_, err = r.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: o.Manager})
	} else {
		_, err = r.Create(ctx, u, metav1.CreateOptions{FieldManager: o.Manager})
	}
	if err != nil {
		return fmt.Errorf("create %s %s/%s: %w", o.GetKind(), o.GetNamespace(), o.GetName(), err)
	}
	if o.CoManager == "" {
		return nil
	}
	patch, err := json.Marshal(o.CoPatch)
	if err != nil {
		return fmt.Errorf("patch of %s: %w", o.GetName(), err)
	}
	if _, err = r.Patch(ctx, u.GetName(), types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: o.CoManager}); err != nil {
		return fmt.Errorf("patch %s %s/%s: %w", o.GetKind(), o.GetNamespace(), o.GetName(), err)
	}
	return nil
}

// awaitReady waits until custom resources are served and every namespace has its default service account, without
// which the API server refuses pods.
func (c *Client) awaitReady(ctx context.Context, objects []Object) error {
	for _, o := range objects {
		var probe func(context.Context) error
		switch o.GetKind() {
		case "CustomResourceDefinition":
			plural, _, _ := unstructured.NestedString(o.Object, "spec", "names", "plural")
			gvr := schema.GroupVersionResource{Group: Group, Version: "v1", Resource: plural}
			probe = func(ctx context.Context) error {
				_, err := c.dynamic.Resource(gvr).List(ctx, metav1.ListOptions{Limit: 1})
				return err
			}
		case "Namespace":
			gvr := schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
			probe = func(ctx context.Context) error {
				_, err := c.dynamic.Resource(gvr).Namespace(o.GetName()).Get(ctx, "default", metav1.GetOptions{})
				return err
			}
		default:
			continue
		}
		if err := await(ctx, patience, probe); err != nil {
			return fmt.Errorf("%s %s is not ready: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

// patience limits the waits for the cluster's controllers. It is only reached on a machine under heavy load.
const patience = 10 * time.Minute

// await polls until probe returns nil.
func await(ctx context.Context, limit time.Duration, probe func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		last = probe(ctx)
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}

// Delete deletes the world's namespaces and cluster-scoped objects and waits until they no longer exist.
func (c *Client) Delete(ctx context.Context, objects []Object) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(Workers)
	for _, o := range objects {
		if o.GetNamespace() != "" {
			continue
		}
		g.Go(func() error {
			r := c.resource(o)
			if err := r.Delete(gctx, o.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("delete %s %s: %w", o.GetKind(), o.GetName(), err)
			}
			err := await(gctx, patience, func(ctx context.Context) error {
				_, err := r.Get(ctx, o.GetName(), metav1.GetOptions{})
				switch {
				case apierrors.IsNotFound(err):
					return nil
				case err != nil:
					return err
				}
				return errors.New("it still exists")
			})
			if err != nil {
				return fmt.Errorf("delete %s %s: %w", o.GetKind(), o.GetName(), err)
			}
			return nil
		})
	}
	return g.Wait()
}
