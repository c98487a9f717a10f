package site

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/controlplane"
)

// Moment is when a write is held.
type Moment string

// The moments at which a gate holds a write.
const (
	Before Moment = "before" // the server never receives the write
	After  Moment = "after"  // the write is done, but the client never receives the reply
)

// Gate is a proxy in front of the API server and the S3 server. It counts matching writes and holds one of them.
type Gate struct {
	// Answer answers a request in place of the server, or returns false; nil for none.
	Answer func(w http.ResponseWriter, r *http.Request) bool

	mu     sync.Mutex
	match  func(*http.Request) bool
	left   int
	when   Moment
	hit    chan string   // receives the held write
	resume chan struct{} // closed when held writes are dropped
}

// Arm makes the gate hold the n-th matching write from now on.
func (g *Gate) Arm(n int, when Moment, match func(*http.Request) bool) (hit <-chan string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.match, g.left, g.when = match, n, when
	g.hit, g.resume = make(chan string, 1), make(chan struct{})
	return g.hit
}

// Disarm drops the held write and lets all others pass.
func (g *Gate) Disarm() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.resume != nil {
		close(g.resume)
	}
	g.match, g.resume = nil, nil
}

// hold reports whether this request has to be held.
func (g *Gate) hold(r *http.Request) (when Moment, resume chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.match == nil || g.left == 0 || !g.match(r) {
		return "", nil
	}
	if g.left--; g.left > 0 {
		return "", nil
	}
	g.hit <- r.Method + " " + r.URL.Path
	return g.when, g.resume
}

// wrap puts the gate in front of a server.
func (g *Gate) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.Answer != nil && g.Answer(w, r) {
			return
		}
		when, resume := g.hold(r)
		switch when {
		case Before:
			<-resume
			panic(http.ErrAbortHandler)
		case After:
			// The client is killed while it waits; the server must not notice that.
			next.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithoutCancel(r.Context())))
			<-resume
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
}

// EveryWrite calls round for the n-th write of a course, n = 1, 2, ..., until the course makes fewer writes and round
// returns false. Each write is held before it is made: the state after a write is the state before the next one. The
// last write is also held after it was made.
func EveryWrite(round func(n int, when Moment) bool) (writes int) {
	for round(writes+1, Before) {
		writes++
	}
	round(writes, After)
	return writes
}

// WritesTo matches the writes of the given custom resources, and all writes to S3.
func WritesTo(resources ...string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			return false
		}
		if !strings.HasPrefix(r.URL.Path, "/api") {
			return true // S3
		}
		for _, resource := range resources {
			if strings.Contains(r.URL.Path, "/"+resource+"/") {
				return true
			}
		}
		return false
	}
}

// Behind starts proxies with the gate to the API server and to S3. It returns a kubeconfig file for the first and the
// URL of the second.
func (g *Gate) Behind(t *testing.T, cluster *controlplane.Cluster) (kubeconfig, s3 string) {
	t.Helper()
	ca, err := os.ReadFile(cluster.CAFile)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(ca))
	start := func(target string, transport http.RoundTripper) string {
		to, err := url.Parse(target)
		require.NoError(t, err)
		proxy := &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(to)
				if transport == nil {
					r.Out.Host = r.In.Host // the signature of S3 requests covers it
				} else {
					r.Out.Header.Set("Authorization", "Bearer "+cluster.Token)
				}
			},
			Transport:     transport,
			FlushInterval: -1,
			ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		}
		server := httptest.NewServer(g.wrap(proxy))
		t.Cleanup(func() {
			g.Disarm()
			server.CloseClientConnections()
			server.Close()
		})
		return server.URL
	}
	api := start(cluster.APIServer,
		&http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}})
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
users: [{name: u, user: {}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, api)
	require.NoError(t, os.WriteFile(kubeconfig, []byte(text), 0o600))
	return kubeconfig, start(cluster.S3.Endpoint, nil)
}

// CreatesConfigMaps matches the writes of a restore.
func CreatesConfigMaps(r *http.Request) bool {
	return r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/configmaps")
}

// AwaitHit waits until the gate holds a request.
func (s *Site) AwaitHit(hit <-chan string) {
	s.T.Helper()
	select {
	case <-hit:
	case <-time.After(5 * time.Minute):
		require.Fail(s.T, "no request was held")
	}
}

// BeginHeldRestore starts a restore and holds it when it has created a few of its objects.
func (s *Site) BeginHeldRestore(g *Gate, name string) {
	s.T.Helper()
	hit := g.Arm(5, Before, CreatesConfigMaps)
	require.NoError(s.T, s.Client.Create(s.T.Context(), &velerov1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name},
		Spec: velerov1.RestoreSpec{BackupName: "whole", NamespaceMapping: map[string]string{s.Shop: s.Shop + "-" +
			name}},
	}))
	s.AwaitHit(hit)
}

// Uploads matches the upload of the archive of a backup, which begins while the archive is being written.
func Uploads(name string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/"+name+".tar.gz")
	}
}

// InTheMiddle starts a backup and holds it in the middle of its upload.
func (s *Site) InTheMiddle(g *Gate, name string) {
	s.T.Helper()
	hit := g.Arm(1, Before, Uploads(name))
	s.BeginBackup(name)
	select {
	case <-hit:
	case <-s.T.Context().Done():
		require.Fail(s.T, "the upload has not begun")
	}
}

// NewGated returns a site on S3 whose server reaches the API server and S3 through a gate.
func NewGated(t *testing.T) (*Site, *Gate) {
	t.Helper()
	s := New(t, "cleat.dev/s3")
	g := &Gate{}
	kubeconfig, s3 := g.Behind(t, s.Cluster)
	s.ServerKubeconfig = kubeconfig
	var location velerov1.BackupStorageLocation
	require.NoError(t, s.Client.Get(t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: "default"}, &location))
	location.Spec.Config["s3Url"] = s3
	require.NoError(t, s.Client.Update(t.Context(), &location))
	return s, g
}

// Requests counts the requests that pass a gate from now on, by method and path.
func (g *Gate) Requests() func() map[string]int {
	var mu sync.Mutex
	seen := map[string]int{}
	g.Arm(1, Before, func(r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		method := r.Method
		if r.Header.Get("Content-Type") == string(types.ApplyPatchType) {
			method = "CREATE" // an apply of a new object is a creation
		}
		seen[method+" "+r.URL.Path]++
		return false
	})
	return func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return seen
	}
}
