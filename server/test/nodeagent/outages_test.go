package nodeagent_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// outage is a proxy of S3 that begins to close the connections of all requests at one of them, for some time.
type outage struct {
	proxy  http.Handler
	lasts  time.Duration
	method string
	blob   string // the first letters of its name

	mu    sync.Mutex
	armed bool
	until time.Time // zero before it has begun
}

// arm has the outage begin at the next request that it waits for.
func (o *outage) arm() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.armed = true
}

// away reports whether a request gets no answer.
func (o *outage) away(r *http.Request) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.armed && o.until.IsZero() && r.Method == o.method && strings.HasPrefix(path.Base(r.URL.Path), o.blob) {
		o.until = time.Now().Add(o.lasts)
	}
	return time.Now().Before(o.until)
}

// ended reports whether the outage was, and is over.
func (o *outage) ended() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.until.IsZero() && time.Now().After(o.until)
}

// ServeHTTP implements http.Handler.
func (o *outage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if o.away(r) {
		panic(http.ErrAbortHandler)
	}
	o.proxy.ServeHTTP(w, r)
}

// newOutage creates a location of the site whose bucket has the outage.
func (f *files) newOutage(o *outage, name string) {
	f.t.Helper()
	var known velerov1.BackupStorageLocation
	require.NoError(f.t, f.client.Get(f.t.Context(), client.ObjectKey{Namespace: f.namespace, Name: "objects"}, &known))
	to, err := url.Parse(known.Spec.Config["s3Url"])
	require.NoError(f.t, err)
	o.proxy = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // the signature of requests covers it
	}}
	server := httptest.NewServer(o)
	f.t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	location := &velerov1.BackupStorageLocation{Spec: *known.Spec.DeepCopy()}
	location.Name = name
	location.Spec.ObjectStorage.Prefix = name
	location.Spec.Config["s3Url"] = server.URL
	f.create(location)
}

// TestAcceptVolumes_Outages has buckets that do not answer for 15 and for 60 seconds from the moment on in which a
// repository is opened, a volume is uploaded, or one is restored. Each load says meanwhile what it waits for, and all
// end at their first attempt, with all bytes.
func TestAcceptVolumes_Outages(t *testing.T) {
	t.Parallel()
	f := newFiles(t, 1)
	f.configure(`{"loadConcurrency": {"globalConfig": 6}}`)
	f.agent(f.nodes[0])
	_, _ = f.owning(false), f.owning(true) // before several want it at once
	for _, lasts := range []time.Duration{15 * time.Second, time.Minute} {
		for at, o := range map[string]*outage{
			"open":    {method: http.MethodGet, blob: "kopia.repository"},
			"upload":  {method: http.MethodPut, blob: "p"},
			"restore": {method: http.MethodGet, blob: "p"},
		} {
			o.lasts = lasts
			name := fmt.Sprintf("%s-%.0f", at, lasts.Seconds())
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f.survive(t, o, name)
			})
		}
	}
}

// survive backs up and restores a volume with an outage of its bucket.
func (f *files) survive(t *testing.T, o *outage, name string) {
	t.Helper()
	s := *f.site
	s.t = t
	of := &files{site: &s, bucket: f.bucket}
	of.newOutage(o, name)
	pod := s.pod(name, s.nodes[0], nil)
	volumes := filepath.Join(s.root, s.nodes[0], string(pod.UID), "volumes")
	content := make([]byte, 50<<20) // in several packs
	_, _ = rand.Read(content)       // never fails
	require.NoError(t, os.WriteFile(filepath.Join(volumes, "kubernetes.io~empty-dir/data/file"), content, 0o600))

	backs := func(load string) *velerov1.PodVolumeBackup {
		b := s.backup(load, s.nodes[0])
		b.Spec.Pod.Name, b.Spec.Pod.UID = pod.Name, pod.UID
		b.Spec.BackupStorageLocation, b.Spec.UploaderType = name, velerov1.RepositoryTypeKopia
		s.create(b)
		return b
	}
	if o.blob == "kopia.repository" {
		backs(name + "-first") // which makes the repository
		s.awaitPhase("PodVolumeBackup/"+name+"-first", velerov1.LoadPhaseCompleted)
	}
	inRestore := o.method == http.MethodGet && o.blob == "p"
	if !inRestore {
		o.arm()
	}
	b := backs(name)
	if !inRestore {
		of.waits("PodVolumeBackup/" + name)
	}
	s.awaitPhase("PodVolumeBackup/"+name, velerov1.LoadPhaseCompleted)
	require.NoError(t, s.client.Get(t.Context(), client.ObjectKeyFromObject(b), b))
	require.Empty(t, b.Status.Message)

	if inRestore {
		o.arm()
	}
	r := s.restore(name, s.nodes[0], b.Status.SnapshotID)
	r.Spec.Pod.Name, r.Spec.Pod.UID = pod.Name, pod.UID
	r.Spec.BackupStorageLocation, r.Spec.UploaderType = name, velerov1.RepositoryTypeKopia
	s.create(r)
	if inRestore {
		of.waits("PodVolumeRestore/" + name)
	}
	s.awaitPhase("PodVolumeRestore/"+name, velerov1.LoadPhaseCompleted)
	require.NoError(t, s.client.Get(t.Context(), client.ObjectKeyFromObject(r), r))
	for _, load := range []client.Object{b, r} {
		require.Contains(t, []string{"", "1"}, attemptOf(load))
	}
	restored, err := os.ReadFile(filepath.Join(volumes, "kubernetes.io~csi/pv-1/mount/file"))
	require.NoError(t, err)
	require.True(t, string(content) == string(restored), "the restored file differs")
	require.True(t, o.ended())
}

// waits waits until a load says that it waits for the storage, and requires that it had not ended before.
func (f *files) waits(key string) {
	f.t.Helper()
	f.await(key+" says what it waits for", func(last map[string]state) bool {
		now := last[key]
		require.False(f.t, now.phase.Terminal(), "%s %s", now.phase, now.message)
		return strings.Contains(now.message, "for the storage")
	})
}
