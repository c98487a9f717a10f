package faults_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// fault is what a meddler does to a number of requests.
type fault struct {
	method, file string // of the requests; the file is the last part of the key
	times        int    // negative for all
	do           func(w http.ResponseWriter, r *http.Request, pass func() *httptest.ResponseRecorder)
}

// meddler is a proxy of S3 with faults.
type meddler struct {
	proxy http.Handler

	mu     sync.Mutex
	faults []*fault
	met    map[string]int // by file
}

func (m *meddler) add(f fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = append(m.faults, &f)
}

func (m *meddler) find(r *http.Request) *fault {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.faults {
		if f.times != 0 && f.method == r.Method && path.Base(r.URL.Path) == f.file && r.URL.Query().Get("list-type") == "" {
			f.times--
			m.met[f.file]++
			return f
		}
	}
	return nil
}

// times returns how often requests for a file have met a fault.
func (m *meddler) times(file string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.met[file]
}

// ServeHTTP implements http.Handler.
func (m *meddler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := m.find(r)
	if f == nil {
		m.proxy.ServeHTTP(w, r)
		return
	}
	f.do(w, r, func() *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		m.proxy.ServeHTTP(answer, r)
		return answer
	})
}

// cut sends some of the bytes of an answer, and closes the connection.
func cut(w http.ResponseWriter, _ *http.Request, pass func() *httptest.ResponseRecorder) {
	answer := pass()
	for key, values := range answer.Header() {
		w.Header()[key] = values
	}
	w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/3])
	panic(http.ErrAbortHandler)
}

// missing answers that there is no such object.
func missing(w http.ResponseWriter, _ *http.Request, _ func() *httptest.ResponseRecorder) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(http.StatusNotFound)
	_, _ = io.WriteString(w, "<Error><Code>NoSuchKey</Code><Message>not yet</Message></Error>")
}

// page answers with the page of a proxy.
func page(w http.ResponseWriter, _ *http.Request, _ func() *httptest.ResponseRecorder) {
	w.Header().Set("Content-Type", "text/html")
	_, _ = io.WriteString(w, "<html><body>We will be back soon</body></html>")
}

// lose acknowledges an object and does not store it.
func lose(w http.ResponseWriter, r *http.Request, _ func() *httptest.ResponseRecorder) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("ETag", `"0123456789abcdef0123456789abcdef"`)
}

// newMeddledSite returns a site whose server reaches S3 through a meddler.
func newMeddledSite(t *testing.T) (*site.Site, *meddler) {
	t.Helper()
	s := site.New(t, "cleat.dev/s3")
	to, err := url.Parse(s.Cluster.S3.Endpoint)
	require.NoError(t, err)
	m := &meddler{met: map[string]int{}, proxy: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // the signature of requests covers it
	}}}
	server := httptest.NewServer(m)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	s.ChangeLocation(func(l *velerov1.BackupStorageLocation) { l.Spec.Config["s3Url"] = server.URL })
	return s, m
}

// TestAcceptFaults_CutReads has an object store, and what is before it, that cut off what they send, lose what they have
// acknowledged, do not find what was just stored, answer with something else, or do not answer. More often than a call
// that fails for an unclear reason is repeated, and no run fails.
func TestAcceptFaults_CutReads(t *testing.T) {
	t.Parallel()
	const often = 6
	s, m := newMeddledSite(t)
	s.Resources = site.Few()
	silent := make(chan struct{})
	m.add(fault{http.MethodPut, "stuck.tar.gz", 1,
		func(http.ResponseWriter, *http.Request, func() *httptest.ResponseRecorder) {
			<-silent
			panic(http.ErrAbortHandler)
		}})
	m.add(fault{http.MethodPut, "lost.tar.gz", 1, lose})
	m.add(fault{http.MethodPut, "lies.tar.gz", -1, lose})
	s.Serve("--concurrent-backups", "4", "--concurrent-restores", "4")
	s.Available()

	// A backup does not end before the object store answers, and says so. One whose archive is lost stores it again, or
	// fails.
	shops := map[string]string{}
	for _, name := range []string{"stuck", "lost", "lies", "whole"} {
		shops[name] = s.Workload(5)
	}
	s.Shop = shops["whole"]
	for name, shop := range shops {
		s.BeginBackupOf(name, shop)
	}
	s.AwaitWait("backup", "stuck", "the object store of backup storage location default to answer")
	close(silent)
	for _, name := range []string{"stuck", "lost"} {
		b := s.AwaitBackup(name, velerov1.BackupPhaseCompleted)
		s.RequireWhole(b)
		require.Equal(t, "1", b.Annotations["cleat.dev/attempt"])
	}
	b := s.AwaitBackup("lies", velerov1.BackupPhaseFailed)
	require.Contains(t, b.Status.FailureReason, "the object store has acknowledged the file and lost it")
	require.NotContains(t, s.Files("backups/lies"), "velero-backup.json")
	s.AwaitBackup("whole", velerov1.BackupPhaseCompleted)

	// The end of a backup reads what the run has stored.
	m.add(fault{http.MethodGet, "velero-backup.json", often, cut})
	s.BeginBackupOf("cut", shops["lost"])
	s.RequireWhole(s.AwaitBackup("cut", velerov1.BackupPhaseCompleted))
	require.Equal(t, often, m.times("velero-backup.json"))
	m.add(fault{http.MethodHead, "velero-backup.json", often, missing})
	s.BeginBackupOf("late", shops["stuck"])
	s.RequireWhole(s.AwaitBackup("late", velerov1.BackupPhaseCompleted))

	m.add(fault{http.MethodGet, "whole.tar.gz", often, cut})
	m.add(fault{http.MethodGet, "whole-volumeinfo.json.gz", often, page})
	s.BeginRestore("back")
	s.CheckRestore("back")
	require.Equal(t, often, m.times("whole.tar.gz"))

	m.add(fault{http.MethodGet, "late-podvolumebackups.json.gz", often, page})
	m.add(fault{http.MethodGet, "late-volumesnapshots.json.gz", often, cut})
	s.BeginDeletion("late")
	s.CheckDeleted("late")
	require.Equal(t, often, m.times("late-podvolumebackups.json.gz"))
	require.Equal(t, often, m.times("late-volumesnapshots.json.gz"))
}
