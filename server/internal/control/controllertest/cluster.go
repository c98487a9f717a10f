package controllertest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	"github.com/cleat-dev/cleat/framework/api/velero/crds"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/test/controlplane"
)

// The control plane of the test binary, and the data that its clients share.
var (
	plane       = controlplane.Shared{Common: true}
	connectOnce sync.Once
	connection  Connection
	errConnect  error
)

// Main runs the tests of a package and returns the exit code. It stops the control plane if a test has started it.
func Main(m *testing.M) int {
	ctrl.SetLogger(logr.Discard())
	return plane.Main(m)
}

// MainAlone is Main for a package whose tests need their own control plane, because they watch or change
// cluster-scoped objects.
func MainAlone(m *testing.M) int {
	plane.Common = false
	return Main(m)
}

// Connection is shared by all clients of the control plane, because discovery takes a while.
type Connection struct {
	Config *rest.Config // of an administrator, without a limit of requests
	Scheme *runtime.Scheme
	Mapper meta.RESTMapper
}

// Connect starts the control plane and installs the resource definitions, once for all tests.
func Connect(t *testing.T) Connection {
	t.Helper()
	kubeconfig := plane.Get(t).Kubeconfig
	connectOnce.Do(func() { connection, errConnect = connect(t.Context(), kubeconfig) })
	require.NoError(t, errConnect)
	return connection
}

func connect(ctx context.Context, kubeconfig string) (c Connection, err error) {
	if c.Config, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
		return c, err
	}
	c.Config.QPS = -1
	c.Scheme = runtime.NewScheme()
	err = errors.Join(clientgoscheme.AddToScheme(c.Scheme), velerov1.AddToScheme(c.Scheme),
		velerov2alpha1.AddToScheme(c.Scheme), apiextensionsv1.AddToScheme(c.Scheme))
	if err != nil {
		return c, err
	}
	httpClient, err := rest.HTTPClientFor(c.Config)
	if err != nil {
		return c, err
	}
	if c.Mapper, err = apiutil.NewDynamicRESTMapper(c.Config, httpClient); err != nil {
		return c, err
	}
	direct, err := client.New(c.Config, client.Options{Scheme: c.Scheme, Mapper: c.Mapper})
	if err != nil {
		return c, err
	}
	return c, install(ctx, direct)
}

// Cluster is a namespace of the control plane.
type Cluster struct {
	*run.Cluster
	direct client.Client // its requests are not wrapped
}

// NewCluster creates a namespace. Every request of the returned cluster passes through wrap, unless it is nil.
func NewCluster(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) *Cluster {
	t.Helper()
	shared := Connect(t)
	config := rest.CopyConfig(shared.Config)
	if wrap != nil {
		config.Wrap(wrap)
	}
	c, err := client.New(config, client.Options{Scheme: shared.Scheme, Mapper: shared.Mapper})
	require.NoError(t, err)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "controller-"}}
	require.NoError(t, c.Create(t.Context(), namespace))
	direct, err := client.New(shared.Config, client.Options{Scheme: shared.Scheme, Mapper: shared.Mapper})
	require.NoError(t, err)
	return &Cluster{&run.Cluster{Client: c, Live: c, Namespace: namespace.Name}, direct}
}

// install creates the resource definitions and waits until all of them are served.
func install(ctx context.Context, c client.Client) error {
	documents, err := crds.All()
	if err != nil {
		return err
	}
	for _, document := range documents {
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(document, &definition); err != nil {
			return err
		}
		if err := c.Create(ctx, &definition); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	for {
		var errs []error
		for _, list := range []client.ObjectList{
			new(velerov1.BackupList), new(velerov1.BackupStorageLocationList), new(velerov1.DeleteBackupRequestList),
			new(velerov1.DownloadRequestList), new(velerov1.RestoreList), new(velerov1.ScheduleList),
			new(velerov1.ServerStatusRequestList), new(velerov1.VolumeSnapshotLocationList),
			new(velerov1.PodVolumeBackupList), new(velerov1.PodVolumeRestoreList), new(velerov1.BackupRepositoryList),
			new(velerov2alpha1.DataUploadList), new(velerov2alpha1.DataDownloadList),
		} {
			errs = append(errs, c.List(ctx, list))
		}
		err := errors.Join(errs...)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the definitions are not served: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Noon is a clock that stands still.
func Noon() time.Time { return time.Date(2026, 3, 4, 12, 0, 0, 123, time.UTC) }

// Add creates objects in the namespace.
func (c *Cluster) Add(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if _, clusterScoped := object.(*corev1.Namespace); !clusterScoped {
			object.SetNamespace(c.Namespace)
		}
		require.NoError(t, c.create(t.Context(), object))
	}
}

// create creates an object. A phase of the status in which a server works on it does not count at the creation, so
// create writes it afterwards, as a server would. No controller reconciles the object in between.
func (c *Cluster) create(ctx context.Context, object client.Object) error {
	wanted, _ := object.DeepCopyObject().(client.Object)
	later := false
	switch o := object.(type) {
	case *velerov1.Backup:
		if phase := o.Status.Phase; !phase.IsNew() && !phase.Terminal() {
			later, o.Status = true, velerov1.BackupStatus{Phase: velerov1.BackupPhaseFailedValidation}
		}
	case *velerov1.Restore:
		if phase := o.Status.Phase; phase != "" && phase != velerov1.RestorePhaseNew && !phase.Terminal() {
			later, o.Status = true, velerov1.RestoreStatus{Phase: velerov1.RestorePhaseFailedValidation}
		}
	case *velerov1.DeleteBackupRequest:
		if o.Status.Phase == velerov1.DeleteBackupRequestPhaseInProgress {
			later, o.Status = true, velerov1.DeleteBackupRequestStatus{Phase: velerov1.DeleteBackupRequestPhaseProcessed}
		}
	}
	if err := c.Create(ctx, object); err != nil || !later {
		return err
	}
	wanted.SetUID(object.GetUID())
	wanted.SetResourceVersion(object.GetResourceVersion())
	if err := c.direct.Update(ctx, wanted); err != nil {
		return err
	}
	return c.direct.Get(ctx, client.ObjectKeyFromObject(object), object)
}

// Request returns the request to reconcile the object called name.
func (c *Cluster) Request(name string) ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKey{Namespace: c.Namespace, Name: name}}
}

// Backup reads a backup.
func (c *Cluster) Backup(t *testing.T, name string) *velerov1.Backup {
	t.Helper()
	b := new(velerov1.Backup)
	require.NoError(t, c.Get(t.Context(), c.Request(name).NamespacedName, b))
	return b
}

// NewLocation returns an available backup storage location.
func NewLocation(name string, change ...func(*velerov1.BackupStorageLocation)) *velerov1.BackupStorageLocation {
	location := &velerov1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: velerov1.BackupStorageLocationSpec{
			Provider: "example.io/files", StorageType: velerov1.StorageType{ObjectStorage: &velerov1.ObjectStorageLocation{
				Bucket: "b",
			}},
		},
		Status: velerov1.BackupStorageLocationStatus{Phase: velerov1.BackupStorageLocationPhaseAvailable},
	}
	for _, f := range change {
		f(location)
	}
	return location
}

// NewBackup returns a backup with the changes applied.
func NewBackup(name string, change ...func(*velerov1.Backup)) *velerov1.Backup {
	b := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, f := range change {
		f(b)
	}
	return b
}

// InPhase returns a change that sets the phase.
func InPhase(phase velerov1.BackupPhase) func(*velerov1.Backup) {
	return func(b *velerov1.Backup) { b.Status.Phase = phase }
}

// NewConfigMap returns a config map.
func NewConfigMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
}
