package restore

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/test/controlplane"
	"github.com/cleat-dev/cleat/server/test/fleet"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

// plane has no proxy of services, so the API server calls their endpoints itself.
var plane = controlplane.Shared{Options: controlplane.Options{
	APIServerFlags: []string{"--enable-aggregator-routing=true"},
}}

func TestMain(m *testing.M) { os.Exit(plane.Main(m)) }

// obj is a Kubernetes object in a test.
type obj = map[string]any

// thing is an object with its type as in an archive.
type thing struct {
	gr        string
	version   string
	namespace string
	name      string
	body      []byte
}

// in returns a thing. An empty namespace makes it cluster-scoped. Fields of extra are added to the top level,
// "metadata" is merged.
func in(gr, apiVersion, kind, namespace, name string, extra obj) thing {
	return thingsOf(fleet.NewObject(gr, apiVersion, kind, namespace, name, extra))[0]
}

func configMap(namespace, name string, extra obj) thing {
	if extra == nil {
		extra = obj{"data": obj{"a": "1"}}
	}
	return in("configmaps", "v1", "ConfigMap", namespace, name, extra)
}

func namespaceThing(name string, extra obj) thing {
	return in("namespaces", "v1", "Namespace", "", name, extra)
}

func labelled(labels obj) obj { return obj{"metadata": obj{"labels": labels}} }

// pack writes things into an archive and opens it. It does not use the writer of this server, because an archive may
// have been written by another one.
func pack(t testing.TB, things ...thing) *archive.Archive {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	w := tar.NewWriter(zip)
	entry := func(path string, body []byte) {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: path, Mode: 0o755, Size: int64(len(body)), Typeflag: tar.TypeReg}))
		_, err := w.Write(body)
		require.NoError(t, err)
	}
	entry("metadata/version", []byte("1.1.0\n"))
	for _, one := range things {
		gr := schema.ParseGroupResource(one.gr)
		entry(archive.ItemPath(gr, "", one.namespace, one.name), one.body)
		entry(archive.ItemPath(gr, one.version+"-preferredversion", one.namespace, one.name), one.body)
	}
	require.NoError(t, w.Close())
	require.NoError(t, zip.Close())
	a, err := archive.Open(t.Context(), &out, t.TempDir(), archive.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	return a
}

// cluster is the API server of the tests, with the rights of an admin.
type cluster struct {
	t      testing.TB
	config *rest.Config
	client *http.Client
	host   string
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	c := plane.Get(t)
	config := &rest.Config{Host: c.APIServer, BearerToken: c.Token,
		TLSClientConfig: rest.TLSClientConfig{CAFile: c.CAFile}}
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	return &cluster{t: t, config: config, client: client, host: c.APIServer}
}

// call sends a request and returns status and body.
func (c *cluster) call(method, path, contentType string, body []byte) (int, []byte) {
	c.t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), method, c.host+path, bytes.NewReader(body))
	require.NoError(c.t, err)
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := c.client.Do(request)
	require.NoError(c.t, err)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	require.NoError(c.t, err)
	return response.StatusCode, data
}

// get reads an object. It returns nil if there is none.
func (c *cluster) get(path string) obj {
	c.t.Helper()
	status, body := c.call(http.MethodGet, path, "", nil)
	if status == http.StatusNotFound {
		return nil
	}
	require.Equal(c.t, http.StatusOK, status, "%s: %s", path, body)
	var o obj
	require.NoError(c.t, json.Unmarshal(body, &o))
	return o
}

func (c *cluster) must(method, path, contentType string, body []byte) obj {
	c.t.Helper()
	status, data := c.call(method, path, contentType, body)
	require.Less(c.t, status, 300, "%s %s: %s", method, path, data)
	var o obj
	require.NoError(c.t, json.Unmarshal(data, &o))
	return o
}

func (c *cluster) create(one thing, manager string) obj {
	c.t.Helper()
	return c.must(http.MethodPost, pathOf(one, false)+"?fieldManager="+manager, kubeapi.JSON, one.body)
}

// pathOf returns the path of a thing, or of its collection.
func pathOf(one thing, object bool) string {
	gr := schema.ParseGroupResource(one.gr)
	segments := []string{"/apis", gr.Group, one.version}
	if gr.Group == "" {
		segments = []string{"/api", one.version}
	}
	if one.namespace != "" {
		segments = append(segments, "namespaces", one.namespace)
	}
	segments = append(segments, gr.Resource)
	if object {
		segments = append(segments, one.name)
	}
	return path.Join(segments...)
}

// live reads a thing back from the cluster.
func (c *cluster) live(one thing) obj {
	c.t.Helper()
	return c.get(pathOf(one, true))
}

// asThing reads an object in the form of a backup.
func (c *cluster) asThing(one thing) thing {
	c.t.Helper()
	status, body := c.call(http.MethodGet, pathOf(one, true), "", nil)
	require.Equal(c.t, http.StatusOK, status, "%s", body)
	one.body = body
	return one
}

// remove deletes a thing and waits until it no longer exists.
func (c *cluster) remove(one thing) {
	c.t.Helper()
	c.call(http.MethodDelete, pathOf(one, true), "", nil)
	require.Eventually(c.t, func() bool {
		status, _ := c.call(http.MethodGet, pathOf(one, true), "", nil)
		return status == http.StatusNotFound
	}, 5*time.Minute, 20*time.Millisecond)
}

// unique returns a name that no other test uses.
func unique(t testing.TB, prefix string) string {
	t.Helper()
	name := strings.ToLower(t.Name())
	var b strings.Builder
	for _, r := range name[max(0, len(name)-30):] {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
		}
	}
	return fmt.Sprintf("%s-%s-%x", prefix, b.String(), time.Now().UnixNano()&0xffffff)
}

// newRestore returns a restore of backup "b".
func newRestore(name string, change func(*velerov1.RestoreSpec)) *velerov1.Restore {
	r := &velerov1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: name}}
	r.Spec.BackupName = "b"
	if change != nil {
		change(&r.Spec)
	}
	return r
}

// testOptions returns options with short pauses.
func testOptions() Options {
	return Options{PollInterval: 20 * time.Millisecond, ResourceTimeout: 10 * time.Minute,
		TerminatingTimeout: 10 * time.Minute, OutageTimeout: 10 * time.Minute}
}

func helperFor(t testing.TB, config *rest.Config) *discovery.Helper {
	t.Helper()
	client, err := clientdiscovery.NewDiscoveryClientForConfig(config)
	require.NoError(t, err)
	return discovery.New(client, hclog.NewNullLogger())
}

// restore runs a restore against the cluster.
func (c *cluster) restore(
	backup *archive.Archive, r *velerov1.Restore, options Options, actions ...restoreitemaction.Action,
) (*Result, error) {
	c.t.Helper()
	return c.restoreWith(c.t.Context(), backup, r, options, actions...)
}

func (c *cluster) restoreWith(
	ctx context.Context, backup *archive.Archive, r *velerov1.Restore, options Options,
	actions ...restoreitemaction.Action,
) (*Result, error) {
	c.t.Helper()
	return c.restoreBy(ctx, backup, r, options, graphOf(backup), actions...)
}

// restoreBy runs a restore by a graph.
func (c *cluster) restoreBy(
	ctx context.Context, backup *archive.Archive, r *velerov1.Restore, options Options,
	graph func(func(archive.Entry) bool) iter.Seq2[*manifest.Item, error], actions ...restoreitemaction.Action,
) (*Result, error) {
	c.t.Helper()
	return Run(ctx, Deps{Config: c.config, Roles: pluginhost.IsRoleOfVelero, Discovery: helperFor(c.t, c.config),
		Options: options},
		Request{Restore: r, Archive: backup, Graph: graph, Actions: actions, Log: testLog(c.t)})
}

func (c *cluster) mustRestore(
	backup *archive.Archive, r *velerov1.Restore, actions ...restoreitemaction.Action,
) *Result {
	c.t.Helper()
	result, err := c.restore(backup, r, testOptions(), actions...)
	require.NoError(c.t, err)
	return result
}

func testLog(t testing.TB) hclog.Logger {
	t.Helper()
	if os.Getenv("RESTORE_TEST_LOG") == "" {
		return hclog.NewNullLogger()
	}
	return hclog.New(&hclog.LoggerOptions{Name: t.Name(), Level: hclog.Debug})
}

// fakeAction is a restore item action that consists of functions.
type fakeAction struct {
	versioning.OneByOne

	name    string
	applies framework.ResourceSelector
	starts  versioning.Starts
	execute func(restoreitemaction.Input) (*restoreitemaction.Result, error)
	ready   func(items []framework.ResourceIdentifier) (bool, error)

	mu  sync.Mutex
	saw []string // names of the items
}

func (f *fakeAction) Name() string { return f.name }

func (f *fakeAction) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return f.applies, nil
}

func (f *fakeAction) Starts() versioning.Starts { return f.starts }

func (f *fakeAction) Execute(_ context.Context, input restoreitemaction.Input) (*restoreitemaction.Result, error) {
	var o struct {
		Metadata struct{ Name string }
	}
	if err := json.Unmarshal(input.Item, &o); err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.saw = append(f.saw, o.Metadata.Name)
	f.mu.Unlock()
	if f.execute == nil {
		return &restoreitemaction.Result{Item: input.Item}, nil
	}
	return f.execute(input)
}

func (f *fakeAction) Progress(context.Context, string, []byte) (framework.OperationProgress, error) {
	return framework.OperationProgress{}, nil
}

func (f *fakeAction) Cancel(context.Context, string, []byte) error { return nil }

func (f *fakeAction) AreAdditionalItemsReady(
	_ context.Context, items []framework.ResourceIdentifier, _ []byte,
) (bool, error) {
	if f.ready == nil {
		return true, nil
	}
	return f.ready(items)
}

// dig returns a value of an object, or nil if there is none.
func dig(o any, path ...string) any {
	for _, key := range path {
		m, ok := o.(obj)
		if !ok {
			return nil
		}
		o = m[key]
	}
	return o
}

// entries returns the entries of a kind in the resource list of a result.
func entries(of *Result, kind string) []string { return slices.Collect(of.ResourceList.Of(kind)) }

// lists returns the resource list of a result.
func lists(of *Result) map[string][]string {
	all := map[string][]string{}
	for _, kind := range of.ResourceList.Kinds() {
		all[kind] = entries(of, kind)
	}
	return all
}
