package requests

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/download"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/control/controllertest"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// shelf is an object store with the log of the backup b. sign makes its URLs.
type shelf struct {
	objectstore.Store
	sign func() (string, error)
}

func testKeys() *signing.Keys { return signing.Fixed(signing.NewKey([]byte("of tests"))) }

const shelved = "backups/b/b-logs.gz"

func (s shelf) CreateSignedURL(context.Context, string, string, time.Duration) (string, error) {
	return s.sign()
}

func (shelf) ObjectExists(_ context.Context, _, key string) (bool, error) { return key == shelved, nil }

func (shelf) GetObject(context.Context, string, string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("the log")), nil
}

// Open implements run.Stores.
func (s shelf) Open(context.Context, *velerov1.BackupStorageLocation) (*store.Store, error) {
	return store.New(s, "bucket", ""), nil
}

// newLibrary returns a cluster with the backup b, and the request d for a file of it.
func newLibrary(t *testing.T, kind velerov1.DownloadTargetKind) *controllertest.Cluster {
	t.Helper()
	c := controllertest.NewCluster(t, nil)
	c.Add(t, &velerov1.BackupStorageLocation{ObjectMeta: metav1.ObjectMeta{Name: "default"},
		Spec: velerov1.BackupStorageLocationSpec{
			Provider: "example.io/tape", StorageType: velerov1.StorageType{ObjectStorage: &velerov1.ObjectStorageLocation{
				Bucket: "bucket",
			}},
		}})
	c.Add(t, &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "b"},
		Spec:   velerov1.BackupSpec{StorageLocation: "default"},
		Status: velerov1.BackupStatus{Phase: velerov1.BackupPhaseCompleted}})
	c.Add(t, &velerov1.DownloadRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: velerov1.DownloadRequestSpec{
			Target: velerov1.DownloadTarget{Kind: kind, Name: "b"},
		},
	})
	return c
}

// answered reconciles the request d once and returns its URL.
func answered(t *testing.T, c *controllertest.Cluster, r *Downloads) (string, error) {
	t.Helper()
	_, err := r.Reconcile(t.Context(), c.Request("d"))
	var request velerov1.DownloadRequest
	require.NoError(t, c.Get(t.Context(), c.Request("d").NamespacedName, &request))
	return request.Status.DownloadURL, err
}

func TestDownloadRequestIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	base, err := url.Parse("https://velero.example.com/files")
	require.NoError(t, err)
	const own = "https://velero.example.com/files/downloads/d?token="
	refuse := func() (string, error) { return "", errors.New("a tape has\nno URLs") }
	for name, test := range map[string]struct {
		kind velerov1.DownloadTargetKind
		sign func() (string, error)
		base *url.URL
		want string // the start of the URL
	}{
		"signed": {"BackupLog", func() (string, error) { return "https://s3.example.com/b?sig=x", nil }, nil,
			"https://s3.example.com/b?sig=x"},
		"signed, although the server has an address": {
			"BackupLog", func() (string, error) { return "http://s3.example.com/b?sig=x", nil }, base,
			"http://s3.example.com/b?sig=x",
		},
		"refused, and the server has no address": {
			"BackupLog", refuse, nil, "unavailable: the object store cannot make a URL of the file: sign a URL for " +
				"backups/b/b-logs.gz in bucket \"bucket\": " +
				"a tape has no URLs; the server cannot offer the file itself, because it has no address that users reach: give " +
				"it one with --download-url",
		},
		"refused":              {"BackupLog", refuse, base, own},
		"a file of the server": {"BackupLog", func() (string, error) { return "file:///backups/b", nil }, base, own},
		"a file of the server in a cluster": {"BackupLog", func() (string, error) { return "file:///backups/b", nil }, nil,
			"unavailable: the object store cannot make a URL of the file: its URLs lead to files on the machine of the " +
				"server; the server cannot offer the file itself, because it has no address that users reach: give it one with " +
				"--download-url"},
		"refused, because the file is not there": {"BackupContents", refuse, nil,
			"unavailable: the file does not exist in object storage"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newLibrary(t, test.kind)
			r := &Downloads{Cluster: c.Cluster, Keys: testKeys(), Stores: shelf{sign: test.sign}, Base: test.base,
				Log: hclog.NewNullLogger(), Now: time.Now}
			address, err := answered(t, c, r)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(address, test.want), address)
			reason, _, unavailable := download.Reason(address)
			var request velerov1.DownloadRequest
			require.NoError(t, c.Get(t.Context(), c.Request("d").NamespacedName, &request))
			require.Equal(t, unavailable, request.Status.Phase == velerov1.DownloadRequestPhaseFailed)
			require.Equal(t, unavailable, request.Status.Message != "")
			if unavailable {
				// Velero's client sends this request to any URL, and shows the error.
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
				require.NoError(t, err)
				response, err := new(http.Client).Do(request)
				if err == nil {
					require.NoError(t, response.Body.Close())
				}
				require.ErrorContains(t, err, strings.ReplaceAll(reason, `"`, `\"`))
			}
		})
	}
}

func TestReasonThatMayGoAwayIsWrittenAfterSomeTime(t *testing.T) {
	t.Parallel()
	c := newLibrary(t, "BackupLog")
	var works atomic.Bool
	now := time.Now()
	r := &Downloads{Cluster: c.Cluster, Keys: testKeys(), Log: hclog.NewNullLogger(), Now: func() time.Time { return now },
		Stores: shelf{sign: func() (string, error) {
			if works.Load() {
				return "https://s3.example.com/b", nil
			}
			return "", framework.Unavailable("the robot is busy")
		}}}
	address, err := answered(t, c, r)
	require.ErrorContains(t, err, "the robot is busy")
	require.Empty(t, address, "it is tried again")
	now = now.Add(patience + time.Second)
	address, err = answered(t, c, r)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(address, "unavailable: make the URL of BackupLog b: "), address)
	require.Contains(t, address, "the robot is busy")

	works.Store(true)
	again, err := answered(t, c, r)
	require.NoError(t, err)
	require.Equal(t, address, again, "an answer stays")
}

func TestServerOffersFileWithToken(t *testing.T) {
	t.Parallel()
	c := newLibrary(t, "BackupLog")
	stores := shelf{sign: func() (string, error) { return "", errors.New("no URLs") }}
	offset := new(atomic.Int64)
	now := func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
	server := httptest.NewServer(&download.Server{
		Client: c.Live, Namespace: c.Namespace, Keys: testKeys(), Open: Open(c.Cluster, stores), Log: hclog.NewNullLogger(),
		Now: now,
	})
	t.Cleanup(server.Close)
	base, err := url.Parse(server.URL)
	require.NoError(t, err)
	r := &Downloads{Cluster: c.Cluster, Keys: testKeys(), Stores: stores, Base: base, Log: hclog.NewNullLogger(), Now: now}
	get := func(address string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		require.NoError(t, err)
		response, err := server.Client().Do(request)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, errors.Join(err, response.Body.Close()))
		return response.StatusCode, string(body)
	}
	status, _ := get(server.URL + "/downloads/d?token=")
	require.Equal(t, http.StatusForbidden, status, "there is no token yet")

	address, err := answered(t, c, r)
	require.NoError(t, err)
	status, body := get(address)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "the log", body)
	for wrong, want := range map[string]int{
		address + "x":                                      http.StatusForbidden,
		strings.Split(address, "?")[0]:                     http.StatusForbidden,
		strings.Replace(address, "/d?", "/e?", 1):          http.StatusForbidden,
		strings.Replace(address, "/downloads/", "/up/", 1): http.StatusNotFound,
		strings.Replace(address, "/d?", "/d/x?", 1):        http.StatusNotFound,
	} {
		status, body := get(wrong)
		require.Equal(t, want, status, wrong)
		require.NotContains(t, body, "the log")
	}
	offset.Store(int64(urlLifetime + time.Second))
	status, _ = get(address)
	require.Equal(t, http.StatusForbidden, status, "the link has expired")
}

// TestFilesOfThisMachineAreOfferedToItsUsers gives a client, which opens no file, a link to the file of a directory.
func TestFilesOfThisMachineAreOfferedToItsUsers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		sign func() (string, error)
		want string
	}{
		{func() (string, error) { return "file:///backups/b", nil }, "http://127.0.0.1:1/downloads/d?token="},
		{func() (string, error) { return "", errors.New("a tape has no URLs") },
			"unavailable: the object store cannot make a URL of the file: "},
	} {
		c := newLibrary(t, "BackupLog")
		r := &Downloads{Cluster: c.Cluster, Keys: testKeys(), Stores: shelf{sign: test.sign},
			Local: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}, Log: hclog.NewNullLogger(), Now: time.Now}
		address, err := answered(t, c, r)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(address, test.want), address)
	}
}

func TestNothingIsSignedForWhatHasNotBegun(t *testing.T) {
	t.Parallel()
	c := newLibrary(t, "BackupLog")
	var b velerov1.Backup
	require.NoError(t, c.Get(t.Context(), c.Request("b").NamespacedName, &b))
	b.Status.Phase = velerov1.BackupPhaseQueued
	require.NoError(t, c.Update(t.Context(), &b))
	r := &Downloads{Cluster: c.Cluster, Keys: testKeys(), Log: hclog.NewNullLogger(), Now: time.Now,
		Stores: shelf{sign: func() (string, error) { return "https://s3.example.com/b", nil }}}
	address, err := answered(t, c, r)
	require.NoError(t, err)
	reason, missing, unavailable := download.Reason(address)
	require.True(t, unavailable && missing, address)
	require.Contains(t, reason, "backup b is Queued")
}
