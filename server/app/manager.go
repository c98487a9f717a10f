package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/kube/readable"
)

// resyncPeriod is how often all objects are reconciled without a change.
const resyncPeriod = 10 * time.Minute

// Scheme returns the scheme of the objects that controllers and commands read and write.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), velerov1.AddToScheme(scheme),
		velerov2alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("build the scheme: %w", err)
	}
	return scheme, nil
}

// newManager returns a manager whose cache has the objects of the server's namespace or, for some kinds, the objects
// that objects selects. When it is stopped, its controllers have grace to end.
func newManager(c Config, grace time.Duration, objects map[client.Object]cache.ByObject) (ctrl.Manager, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	// The controllers send few requests, and a backup that is admitted, or a free place for a load, must not wait behind
	// --client-qps, which limits the requests for the objects that are backed up and restored.
	unlimited := rest.CopyConfig(c.REST)
	unlimited.QPS = -1
	informers := readable.Informers{
		Scheme: scheme, Group: velerov1.SchemeGroupVersion.Group, Namespace: c.Namespace, LeftOut: leaveOut(c.Log),
		Live: sync.OnceValues(func() (client.Reader, error) { return client.New(unlimited, client.Options{Scheme: scheme}) }),
	}
	mgr, err := ctrl.NewManager(unlimited, ctrl.Options{
		Scheme: scheme,
		Cache: cache.Options{
			DefaultNamespaces: map[string]cache.Config{c.Namespace: {}},
			DefaultTransform:  cache.TransformStripManagedFields(),
			ByObject:          objects,
			NewInformer:       informers.New,
			SyncPeriod:        new(resyncPeriod),
		},
		MapperProvider:          newMapper,
		Metrics:                 metricsserver.Options{BindAddress: "0"}, // endpoints.go serves them
		GracefulShutdownTimeout: &grace,
		Logger:                  NewLogr(c.Log.Named("controller-runtime")),
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the API server %s: %w", c.REST.Host, err)
	}
	return mgr, nil
}

// leaveOut returns the function that is called for an object that a list leaves out.
func leaveOut(log hclog.Logger) func(error) {
	return func(err error) {
		log.Error("an object is left out of all that the server does; correct or delete it with kubectl", "error", err)
	}
}

// checkNamespace returns an error if the server's namespace does not exist.
func checkNamespace(ctx context.Context, reader client.Reader, namespace string) error {
	err := reader.Get(ctx, client.ObjectKey{Name: namespace},
		&metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("namespace %s does not exist; create it, or name the server's namespace with --namespace or "+
			"$VELERO_NAMESPACE", namespace)
	}
	if err != nil {
		return fmt.Errorf("get namespace %s: %w", namespace, err)
	}
	return nil
}

// checkDefinitions returns an error if the API server does not serve the custom resources.
func checkDefinitions(ctx context.Context, discoverer *clientdiscovery.DiscoveryClient, patience run.Patience) error {
	const install = `install the custom resource definitions with "cleat install --crds-only"`
	for version, kinds := range map[schema.GroupVersion][]string{
		velerov1.SchemeGroupVersion: {
			"Backup", "BackupRepository", "BackupStorageLocation", "DeleteBackupRequest", "DownloadRequest", "PodVolumeBackup",
			"PodVolumeRestore", "Restore", "Schedule", "ServerStatusRequest", "VolumeSnapshotLocation",
		},
		velerov2alpha1.SchemeGroupVersion: {"DataDownload", "DataUpload"},
	} {
		served, err := servedKinds(ctx, discoverer, patience, version)
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("the API server does not serve %s; %s", version, install)
		}
		if err != nil {
			return fmt.Errorf("discover the resources of %s: %w", version, err)
		}
		missing := slices.DeleteFunc(kinds, func(kind string) bool { return served[kind] })
		if len(missing) > 0 {
			return fmt.Errorf("the API server does not serve %s of %s; %s", strings.Join(missing, ", "), version, install)
		}
	}
	return nil
}

// servedKinds returns the kinds of one version of a group.
func servedKinds(
	ctx context.Context, discoverer *clientdiscovery.DiscoveryClient, patience run.Patience, version schema.GroupVersion,
) (map[string]bool, error) {
	var list *metav1.APIResourceList
	err := patience.Read(ctx, func() (err error) {
		list, err = discoverer.ServerResourcesForGroupVersionWithContext(ctx, version.String())
		return err
	})
	if err != nil {
		return nil, err
	}
	served := make(map[string]bool)
	for _, resource := range list.APIResources {
		served[resource.Kind] = true
	}
	return served, nil
}
