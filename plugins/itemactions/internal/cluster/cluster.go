// Package cluster gives the built-in actions access to the cluster that the server works on. It imports client-go and
// connects at the first query.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned/typed/volumesnapshot/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	rbacv1client "k8s.io/client-go/kubernetes/typed/rbac/v1"
	storagev1client "k8s.io/client-go/kubernetes/typed/storage/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// Cluster is a lazily opened connection to a cluster. It is safe for concurrent use.
type Cluster struct {
	config func() (*rest.Config, error)

	mu        sync.Mutex
	connected *clients
}

type clients struct {
	core    *corev1client.CoreV1Client
	rbac    *rbacv1client.RbacV1Client
	storage *storagev1client.StorageV1Client
	// These have the only requests that write.
	snapshots *snapshotclient.SnapshotV1Client
	objects   client.Client
	dynamic   *dynamic.DynamicClient
}

// New returns the cluster that config describes. config is called until it succeeds.
func New(config func() (*rest.Config, error)) *Cluster {
	return &Cluster{config: config}
}

// FromEnvironment returns the default configuration of a program: the file in KUBECONFIG, the user's own file, or the
// service account of its pod.
func FromEnvironment() (*rest.Config, error) {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(),
		nil).ClientConfig()
}

// ClusterRoleBindings calls visit for each ClusterRoleBinding and lists them in pages. A cluster without RBAC has none.
func (c *Cluster) ClusterRoleBindings(ctx context.Context, visit func(*rbacv1.ClusterRoleBinding)) error {
	clients, err := c.connect()
	if err != nil {
		return err
	}
	list := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		return clients.rbac.ClusterRoleBindings().List(ctx, opts)
	})
	err = list.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		binding, ok := object.(*rbacv1.ClusterRoleBinding)
		if !ok {
			return fmt.Errorf("the list holds a %T", object)
		}
		visit(binding)
		return nil
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("list cluster role bindings: %w", err)
	}
	return nil
}

// Pods calls visit for each pod of a namespace and lists them in pages.
func (c *Cluster) Pods(ctx context.Context, namespace string, visit func(*corev1.Pod)) error {
	clients, err := c.connect()
	if err != nil {
		return err
	}
	list := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
		return clients.core.Pods(namespace).List(ctx, opts)
	})
	err = list.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		pod, ok := object.(*corev1.Pod)
		if !ok {
			return fmt.Errorf("the list holds a %T", object)
		}
		visit(pod)
		return nil
	})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	return nil
}

// ClaimsWith returns the names of the PersistentVolumeClaims of a namespace that have a label.
func (c *Cluster) ClaimsWith(ctx context.Context, namespace, label, value string) ([]string, error) {
	claims, err := c.Claims(ctx, namespace, label, value)
	var names []string
	for i := range claims {
		names = append(names, claims[i].Name)
	}
	return names, err
}

// Claims returns the PersistentVolumeClaims of a namespace that have a label.
func (c *Cluster) Claims(
	ctx context.Context, namespace, label, value string,
) ([]corev1.PersistentVolumeClaim, error) {
	clients, err := c.connect()
	if err != nil {
		return nil, err
	}
	list, err := clients.core.PersistentVolumeClaims(namespace).List(ctx,
		metav1.ListOptions{LabelSelector: labels.Set{label: value}.String()})
	if err != nil {
		return nil, fmt.Errorf("list persistent volume claims: %w", err)
	}
	return list.Items, nil
}

// ServiceAccountExists reports whether a ServiceAccount exists. One that is being deleted counts.
func (c *Cluster) ServiceAccountExists(ctx context.Context, namespace, name string) (bool, error) {
	clients, err := c.connect()
	if err != nil {
		return false, err
	}
	_, err = clients.core.ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get service account: %w", err)
	}
	return true, nil
}

// Settings returns the data of the ConfigMap in a namespace that configures a restore item action; nil if there is
// none. Several are an error.
func (c *Cluster) Settings(ctx context.Context, namespace, action string) (map[string]string, error) {
	clients, err := c.connect()
	if err != nil {
		return nil, err
	}
	selector := velerov1.PluginConfigLabel + "," + action + "=RestoreItemAction"
	list, err := clients.core.ConfigMaps(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list config maps: %w", err)
	}
	switch len(list.Items) {
	case 0:
		return nil, nil
	case 1:
		return list.Items[0].Data, nil
	default:
		var names []string
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return nil, fmt.Errorf("config maps %s of namespace %s all have the labels %s, want one", strings.Join(names, ", "),
			namespace, selector)
	}
}

// StorageClassExists reports whether a StorageClass exists.
func (c *Cluster) StorageClassExists(ctx context.Context, name string) (bool, error) {
	clients, err := c.connect()
	if err != nil {
		return false, err
	}
	_, err = clients.storage.StorageClasses().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get storage class: %w", err)
	}
	return true, nil
}

// PersistentVolume returns a PersistentVolume.
func (c *Cluster) PersistentVolume(ctx context.Context, name string) (*corev1.PersistentVolume, error) {
	clients, err := c.connect()
	if err != nil {
		return nil, err
	}
	volume, err := clients.core.PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get persistent volume: %w", err)
	}
	return volume, nil
}

// ClaimExists reports whether a PersistentVolumeClaim exists. One that is being deleted counts.
func (c *Cluster) ClaimExists(ctx context.Context, namespace, name string) (bool, error) {
	clients, err := c.connect()
	if err != nil {
		return false, err
	}
	_, err = clients.core.PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get persistent volume claim: %w", err)
	}
	return true, nil
}

// Snapshots returns a client for the snapshots of CSI volumes, their contents and classes.
func (c *Cluster) Snapshots() (snapshotclient.SnapshotV1Interface, error) {
	clients, err := c.connect()
	if err != nil {
		return nil, err
	}
	return clients.snapshots, nil
}

// Objects returns a client for the custom resources of Velero, and for pods, claims and nodes.
func (c *Cluster) Objects() (client.Client, error) {
	clients, err := c.connect()
	if err != nil {
		return nil, err
	}
	return clients.objects, nil
}

// Dynamic returns a client for objects of any type.
func (c *Cluster) Dynamic() (dynamic.Interface, error) {
	clients, err := c.connect()
	if err != nil {
		return nil, err
	}
	return clients.dynamic, nil
}

// ConfigMaps returns a client for the ConfigMaps of a namespace.
func (c *Cluster) ConfigMaps(namespace string) (corev1client.ConfigMapInterface, error) {
	clients, err := c.connect()
	if err != nil {
		return nil, err
	}
	return clients.core.ConfigMaps(namespace), nil
}

// LegacyDefinition returns a CustomResourceDefinition as apiextensions.k8s.io/v1beta1 serves it; nil if the cluster
// does not serve that version.
func (c *Cluster) LegacyDefinition(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	clients, err := c.connect()
	if err != nil {
		return nil, err
	}
	const group = "apiextensions.k8s.io"
	served, err := c.Versions(ctx, group)
	if err != nil || !slices.Contains(served, "v1beta1") {
		return nil, err
	}
	raw, err := clients.core.RESTClient().Get().AbsPath("/apis", group, "v1beta1", "customresourcedefinitions", name).
		Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	definition := &unstructured.Unstructured{}
	return definition, definition.UnmarshalJSON(raw)
}

// Versions returns the versions of an API group that the cluster serves, newest first; none if it does not serve the
// group.
func (c *Cluster) Versions(ctx context.Context, group string) ([]string, error) {
	clients, err := c.connect()
	if err != nil {
		return nil, err
	}
	raw, err := clients.core.RESTClient().Get().AbsPath("/apis", group).Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	var found metav1.APIGroup
	if err == nil {
		err = json.Unmarshal(raw, &found)
	}
	if err != nil {
		return nil, fmt.Errorf("which versions of %s the cluster serves: %w", group, err)
	}
	var versions []string
	for _, v := range found.Versions {
		versions = append(versions, v.Version)
	}
	return versions, nil
}

// connect creates the clients. It sends no request; it fails when there is no configuration.
func (c *Cluster) connect() (*clients, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.connected != nil {
		return c.connected, nil
	}
	config, err := c.config()
	if err != nil {
		return nil, fmt.Errorf("how to reach the cluster: %w", err)
	}
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return patient{next: next, long: outage} })
	if config.QPS == 0 {
		config.QPS, config.Burst = 100, 100 // the default of 5 per second is meant for interactive tools
	}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("how to reach the cluster: %w", err)
	}
	core, err := corev1client.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("how to reach the cluster: %w", err)
	}
	rbac, err := rbacv1client.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("how to reach the cluster: %w", err)
	}
	storage, err := storagev1client.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("how to reach the cluster: %w", err)
	}
	snapshots, err := snapshotclient.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("how to reach the cluster: %w", err)
	}
	objects, err := newObjects(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("how to reach the cluster: %w", err)
	}
	anything, err := dynamic.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("how to reach the cluster: %w", err)
	}
	c.connected = &clients{core: core, rbac: rbac, storage: storage, snapshots: snapshots, objects: objects,
		dynamic: anything}
	return c.connected, nil
}

func newObjects(config *rest.Config, httpClient *http.Client) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme),
		velerov1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme, HTTPClient: httpClient})
}
