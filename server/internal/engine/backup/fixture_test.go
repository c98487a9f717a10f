package backup_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/backup"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/test/controlplane"
)

var plane controlplane.Shared

func TestMain(m *testing.M) { os.Exit(plane.Main(m)) }

// connect returns a connection to a cluster without rate limits.
func connect(t testing.TB, kubeconfig string) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	return config
}

func depsFor(t testing.TB, config *rest.Config) backup.Deps {
	t.Helper()
	client, err := clientdiscovery.NewDiscoveryClientForConfig(config)
	require.NoError(t, err)
	return backup.Deps{
		Config: config, Discovery: discovery.New(client, hclog.NewNullLogger()),
		Roles: func(action string, role framework.Role) bool {
			return pluginhost.IsRoleOfVelero(action, role) || action == "example.com/volumes" && role == framework.RolePodVolumes
		},
	}
}

// fixtureObject is one object of the fixture. Without a namespace it is cluster-scoped.
type fixtureObject struct {
	resource  string // "plural.group"
	version   string
	kind      string
	namespace string
	name      string
	labels    map[string]string
	rest      string // JSON members besides metadata
}

func (o fixtureObject) id() string {
	if o.namespace == "" {
		return o.resource + ":" + o.name
	}
	return o.resource + ":" + o.namespace + "/" + o.name
}

type labelSet = map[string]string

var web = labelSet{"app": "web"}

// fixture returns the objects that the tests of filters use. fixtureWorld adds some that are being deleted.
func fixture() []fixtureObject {
	const pod = `"spec":{"containers":[{"name":"c","image":"none"}]}`
	crd := func(plural, kind, short, scope string) fixtureObject {
		return fixtureObject{"customresourcedefinitions.apiextensions.k8s.io", "v1", "CustomResourceDefinition", "",
			plural + ".example.com", nil, fmt.Sprintf(
				`"spec":{"group":"example.com","scope":%q,"names":{"plural":%q,"singular":%q,"kind":%q,"shortNames":[%q]},
			"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}`,
				scope, plural, strings.ToLower(kind), kind, short)}
	}
	ns := func(name string, labels labelSet) fixtureObject {
		return fixtureObject{"namespaces", "v1", "Namespace", "", name, labels, ""}
	}
	cm := func(namespace, name string, labels labelSet) fixtureObject {
		return fixtureObject{"configmaps", "v1", "ConfigMap", namespace, name, labels, `"data":{"k":"v"}`}
	}
	return []fixtureObject{
		ns("shop-prod", labelSet{"env": "prod"}), ns("shop-test", labelSet{"env": "test"}), ns("bank-prod",
			labelSet{"env": "prod"}),
		ns("bank1", nil), ns("bank2", nil), ns("bank10", nil), ns("empty", nil),
		ns("hidden", labelSet{"velero.io/exclude-from-backup": "true"}),
		crd("widgets", "Widget", "wd", "Namespaced"), crd("gadgets", "Gadget", "gg", "Cluster"),

		cm("shop-prod", "settings", web), cm("shop-test", "settings", nil), cm("bank-prod", "settings",
			labelSet{"app": "bank"}),
		cm("bank1", "settings", nil), cm("bank2", "settings", nil), cm("bank10", "settings", nil), cm("hidden", "settings",
			web),
		cm("shop-prod", "skipped", labelSet{"app": "web", "velero.io/exclude-from-backup": "true"}),
		cm("shop-prod", "kept", labelSet{"velero.io/exclude-from-backup": "false"}),
		{"secrets", "v1", "Secret", "shop-prod", "password", web, `"stringData":{"p":"x"}`},
		{"secrets", "v1", "Secret", "bank-prod", "password", nil, `"stringData":{"p":"x"}`},
		{"pods", "v1", "Pod", "shop-prod", "db-0", labelSet{"app": "db"}, pod},
		{"pods", "v1", "Pod", "shop-test", "db-0", labelSet{"app": "db"}, pod},
		{"services", "v1", "Service", "shop-prod", "web", web, `"spec":{"ports":[{"port":80}]}`},
		{"serviceaccounts", "v1", "ServiceAccount", "shop-prod", "robot", nil, ""},
		{"events", "v1", "Event", "shop-prod", "opened", nil, `"involvedObject":{"namespace":"shop-prod"}`},
		{"deployments.apps", "v1", "Deployment", "shop-prod", "web", web,
			`"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},` + pod +
				`}}`},
		{"roles.rbac.authorization.k8s.io", "v1", "Role", "shop-prod", "reader", nil, ""},
		{"networkpolicies.networking.k8s.io", "v1", "NetworkPolicy", "bank-prod", "closed", nil, `"spec":{"podSelector":{}}`},
		{"widgets.example.com", "v1", "Widget", "shop-prod", "round", web, `"spec":{"r":1.50,"big":9007199254740993}`},
		{"widgets.example.com", "v1", "Widget", "shop-test", "square", nil, ""},
		{"gadgets.example.com", "v1", "Gadget", "", "lamp", web, ""},
		{"clusterroles.rbac.authorization.k8s.io", "v1", "ClusterRole", "", "fixture:reader", web, ""},
		{"storageclasses.storage.k8s.io", "v1", "StorageClass", "", "fixture-fast", nil, `"provisioner":"none"`},
		{"priorityclasses.scheduling.k8s.io", "v1", "PriorityClass", "", "fixture-high", labelSet{"app": "bank"},
			`"value":5`},
		{"persistentvolumes", "v1", "PersistentVolume", "", "fixture-pv", labelSet{"app": "db"},
			`"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/x"}}`},
	}
}

var fixtureOnce sync.Once

// fixtureWorld creates the fixture in the package's cluster, once, and returns a connection to it.
func fixtureWorld(t testing.TB) *rest.Config {
	t.Helper()
	config := connect(t, plane.Get(t).Kubeconfig)
	fixtureOnce.Do(func() {
		ctx := context.WithoutCancel(t.Context())
		for _, o := range fixture() {
			create(ctx, t, config, o)
		}
		// One object and one namespace that are being deleted.
		for _, o := range []fixtureObject{
			{"configmaps", "v1", "ConfigMap", "shop-prod", "leaving", web, ""},
			{"namespaces", "v1", "Namespace", "", "bank-leaving", nil, ""},
			{"configmaps", "v1", "ConfigMap", "bank-leaving", "leaving", web, ""},
		} {
			create(ctx, t, config, o)
		}
		remove(ctx, t, config, fixtureObject{resource: "configmaps", version: "v1", namespace: "shop-prod", name: "leaving"})
		remove(ctx, t, config, fixtureObject{resource: "namespaces", version: "v1", name: "bank-leaving"})
		await(ctx, t, func() bool {
			o := fixtureObject{resource: "configmaps", version: "v1", namespace: "bank-leaving"}
			left, err := resourceClient(t, config, o).Get(ctx, "leaving", metav1.GetOptions{})
			return err == nil && left.GetDeletionTimestamp() != nil
		})
	})
	return config
}

func resourceClient(t testing.TB, config *rest.Config, o fixtureObject) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	resource := client.Resource(schema.ParseGroupResource(o.resource).WithVersion(o.version))
	if o.namespace == "" {
		return resource
	}
	return resource.Namespace(o.namespace)
}

// create creates an object. It waits for a definition that is not served yet and for a service account that does
// not exist yet.
func create(ctx context.Context, t testing.TB, config *rest.Config, o fixtureObject) {
	t.Helper()
	gr := schema.ParseGroupResource(o.resource)
	object := &unstructured.Unstructured{}
	body := o.rest
	if body != "" {
		body = "," + body
	}
	require.NoError(t, object.UnmarshalJSON(fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q%s}`,
		schema.GroupVersion{Group: gr.Group, Version: o.version}.String(), o.kind, body)))
	object.SetName(o.name)
	object.SetNamespace(o.namespace)
	object.SetLabels(o.labels)
	if o.name == "leaving" {
		object.SetFinalizers([]string{"example.com/stay"})
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		_, err := resourceClient(t, config, o).Create(ctx, object, metav1.CreateOptions{})
		if err == nil {
			return
		}
		if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			require.NoError(t, err, o.id())
		}
		select {
		case <-ctx.Done():
			require.NoError(t, err, o.id())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// await polls until done returns true.
func await(ctx context.Context, t testing.TB, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			require.FailNow(t, "waited for too long")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func remove(ctx context.Context, t testing.TB, config *rest.Config, o fixtureObject) {
	t.Helper()
	require.NoError(t, resourceClient(t, config, o).Delete(ctx, o.name, metav1.DeleteOptions{}))
}

// taken is a completed backup.
type taken struct {
	*backup.Result
	objects map[string]string // unversioned path below resources/, as resource:namespace/name -> JSON
	entries []string          // every path in the archive
}

// newBackup returns a backup without the data of volumes, unless change requests it.
func newBackup(change func(*velerov1.BackupSpec)) *velerov1.Backup {
	b := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "b", UID: "u"}}
	if change != nil {
		change(&b.Spec)
	}
	if b.Spec.SnapshotVolumes == nil {
		b.Spec.SnapshotVolumes = new(bool)
	}
	return b
}

func take(ctx context.Context, t testing.TB, deps backup.Deps, req backup.Request) taken {
	t.Helper()
	if req.Log == nil {
		req.Log = hclog.NewNullLogger()
	}
	var archive bytes.Buffer
	result, err := backup.Run(ctx, deps, req, &archive)
	require.NoError(t, err)
	return readBackup(t, result, archive.Bytes())
}

func readBackup(t testing.TB, result *backup.Result, archive []byte) taken {
	t.Helper()
	b := taken{Result: result, objects: map[string]string{}}
	gz, err := gzip.NewReader(bytes.NewReader(archive))
	require.NoError(t, err)
	versioned := 0
	for tr := tar.NewReader(gz); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.NotContains(t, b.entries, h.Name, "each path is there once")
		b.entries = append(b.entries, h.Name)
		body, err := io.ReadAll(tr)
		require.NoError(t, err)
		parts := strings.Split(strings.TrimSuffix(h.Name, ".json"), "/")
		switch {
		case parts[0] != "resources":
			continue
		case strings.HasSuffix(parts[2], "-preferredversion"):
			versioned++
			continue
		case parts[2] == "cluster":
			b.objects[parts[1]+":"+parts[3]] = string(body)
		default:
			b.objects[parts[1]+":"+parts[3]+"/"+parts[4]] = string(body)
		}
	}
	require.Equal(t, len(b.objects), versioned, "every object has both paths")
	require.Len(t, b.objects, result.Items)
	return b
}

// fixtureIDs returns the objects of the fixture that are in the backup, sorted.
func (b taken) fixtureIDs() []string {
	var ids []string
	for _, o := range append(fixture(),
		fixtureObject{resource: "configmaps", namespace: "shop-prod", name: "leaving"},
		fixtureObject{resource: "configmaps", namespace: "bank-leaving", name: "leaving"},
		fixtureObject{resource: "namespaces", name: "bank-leaving"},
	) {
		if _, ok := b.objects[o.id()]; ok {
			ids = append(ids, o.id())
		}
	}
	return slices.Sorted(slices.Values(ids))
}
