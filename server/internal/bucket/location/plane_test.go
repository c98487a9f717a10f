package location_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/api/velero/crds"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/plugins/filestore"
	"github.com/cleat-dev/cleat/plugins/s3store"
	"github.com/cleat-dev/cleat/server/internal/bucket/location"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/test/controlplane"
	"github.com/cleat-dev/cleat/server/test/programs"
)

var plane = controlplane.Shared{Common: true}

// pluginFiles is the directory in which the external plugin is built once for all tests.
var pluginFiles string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "location")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	pluginFiles = dir
	ctrl.SetLogger(logr.Discard())
	code := plane.Main(m)
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

var buildPlugin = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(pluginFiles, "plugins")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	built, err := programs.Link("server/internal/bucket/location/testdata/plugin")
	if err != nil {
		return "", fmt.Errorf("build the external plugin: %w", err)
	}
	return dir, programs.CopyFile(built, filepath.Join(dir, "plugin"))
})

// world has a namespace on a control plane, a plugin host and an opener.
type world struct {
	cluster   *controlplane.Cluster
	rest      *rest.Config
	client    client.WithWatch
	scheme    *runtime.Scheme
	namespace string
	host      *pluginhost.Host
	opener    *location.Opener
}

func newWorld(t *testing.T, cluster *controlplane.Cluster, namespace string) *world {
	t.Helper()
	w := &world{cluster: cluster, namespace: namespace, scheme: runtime.NewScheme()}
	require.NoError(t, corev1.AddToScheme(w.scheme))
	require.NoError(t, velerov1.AddToScheme(w.scheme))
	var err error
	w.rest, err = clientcmd.BuildConfigFromFlags("", cluster.Kubeconfig)
	require.NoError(t, err)
	w.rest.QPS = -1
	w.client, err = client.NewWithWatch(w.rest, client.Options{Scheme: w.scheme})
	require.NoError(t, err)
	w.installDefinitions(t)
	ns := &corev1.Namespace{}
	ns.Name = namespace
	require.NoError(t, w.client.Create(t.Context(), ns))

	plugins, err := buildPlugin()
	require.NoError(t, err)
	w.host, err = pluginhost.New(t.Context(), pluginhost.Config{
		Dir: plugins, Log: hclog.NewNullLogger(),
		BuiltIns: []framework.Registration{filestore.Register(), s3store.Register()},
	})
	require.NoError(t, err)
	t.Cleanup(w.host.Close)
	w.opener = location.NewOpener(w.client, location.PluginHost{Host: w.host}, filepath.Join(t.TempDir(), "credentials"),
		hclog.NewNullLogger())
	return w
}

// installDefinitions installs the custom resource definitions and waits until they are served.
func (w *world) installDefinitions(t *testing.T) {
	t.Helper()
	documents, err := crds.All()
	require.NoError(t, err)
	for _, document := range documents {
		definition := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal(document, &definition.Object))
		if err := w.client.Create(t.Context(), definition); !apierrors.IsAlreadyExists(err) {
			require.NoError(t, err)
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(definition.GroupVersionKind())
		await(t, w.client, list, func(object *unstructured.Unstructured) bool {
			conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
			for _, condition := range conditions {
				c, _ := condition.(map[string]any)
				if c["type"] == "Established" && c["status"] == "True" {
					return true
				}
			}
			return false
		}, client.MatchingFields{"metadata.name": definition.GetName()})
	}
	// A definition is established shortly before clients can discover it.
	require.Eventually(t, func() bool { return w.client.List(t.Context(), &velerov1.BackupStorageLocationList{}) == nil },
		waitFor, tick)
}

// await watches the objects of a list and returns the first for which wanted returns true.
func await[O client.Object](
	t *testing.T, c client.WithWatch, list client.ObjectList, wanted func(O) bool, options ...client.ListOption,
) O {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	watcher, err := c.Watch(ctx, list, options...)
	require.NoError(t, err)
	defer watcher.Stop()
	var last runtime.Object
	for {
		select {
		case e, open := <-watcher.ResultChan():
			require.True(t, open, "the watch ended; seen last: %+v", last)
			require.NotEqual(t, watch.Error, e.Type, "%+v", e.Object)
			last = e.Object
			if object, ok := e.Object.(O); ok && wanted(object) {
				return object
			}
		case <-ctx.Done():
			require.Fail(t, "the expected state was not reached", "seen last: %+v", last)
		}
	}
}

// location creates a location in the world's namespace.
func (w *world) location(
	t *testing.T, name string, spec velerov1.BackupStorageLocationSpec,
) *velerov1.BackupStorageLocation {
	t.Helper()
	l := &velerov1.BackupStorageLocation{Spec: spec}
	l.Namespace, l.Name = w.namespace, name
	require.NoError(t, w.client.Create(t.Context(), l))
	return l
}

// awaitLocation waits until wanted returns true for a location.
func (w *world) awaitLocation(
	t *testing.T, name string, wanted func(*velerov1.BackupStorageLocation) bool,
) *velerov1.BackupStorageLocation {
	t.Helper()
	return await(t, w.client, &velerov1.BackupStorageLocationList{}, wanted,
		client.InNamespace(w.namespace), client.MatchingFields{"metadata.name": name})
}

// s3 returns the spec of a location in a bucket of the S3 server. It creates a Secret with the credentials.
func (w *world) s3(t *testing.T, bucket string) velerov1.BackupStorageLocationSpec {
	t.Helper()
	s3 := w.cluster.S3
	w.secret(t, "s3-credentials", fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n",
		s3.AccessKey, s3.SecretKey))
	return velerov1.BackupStorageLocationSpec{
		Provider:    s3store.Name,
		Config:      map[string]string{"s3Url": s3.Endpoint, "region": s3.Region, "s3ForcePathStyle": "true"},
		Credential:  selector("s3-credentials", "cloud"),
		StorageType: velerov1.StorageType{ObjectStorage: &velerov1.ObjectStorageLocation{Bucket: bucket, Prefix: "velero"}},
	}
}

// files returns the spec of a location in a new directory below root.
func files(t *testing.T, provider, root string) (spec velerov1.BackupStorageLocationSpec, bucket string) {
	t.Helper()
	bucket, err := os.MkdirTemp(root, "bucket")
	require.NoError(t, err)
	return velerov1.BackupStorageLocationSpec{
		Provider:    provider,
		Config:      map[string]string{"path": root},
		StorageType: velerov1.StorageType{ObjectStorage: &velerov1.ObjectStorageLocation{Bucket: filepath.Base(bucket)}},
	}, bucket
}

// secret creates or replaces a Secret with content at the key "cloud".
func (w *world) secret(t *testing.T, name, content string) {
	t.Helper()
	secret := &corev1.Secret{Data: map[string][]byte{"cloud": []byte(content)}}
	secret.Namespace, secret.Name = w.namespace, name
	err := w.client.Create(t.Context(), secret)
	if apierrors.IsAlreadyExists(err) {
		err = w.client.Update(t.Context(), secret)
	}
	require.NoError(t, err)
}

// run runs the reconciler until the test ends.
func (w *world) run(t *testing.T, change func(*location.Reconciler)) *bytes.Buffer {
	t.Helper()
	manager, err := ctrl.NewManager(w.rest, ctrl.Options{
		Scheme:     w.scheme,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{w.namespace: {}}},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	require.NoError(t, err)
	log := &bytes.Buffer{}
	r := &location.Reconciler{
		Client: manager.GetClient(), Opener: w.opener, Now: time.Now, Frequency: time.Hour,
		Log: hclog.New(&hclog.LoggerOptions{Output: log}),
	}
	if change != nil {
		change(r)
	}
	require.NoError(t, r.SetupWithManager(manager))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return log
}

func phase(want velerov1.BackupStorageLocationPhase) func(*velerov1.BackupStorageLocation) bool {
	return func(l *velerov1.BackupStorageLocation) bool { return l.Status.Phase == want }
}

const (
	waitFor = 5 * time.Minute
	tick    = 10 * time.Millisecond
)
