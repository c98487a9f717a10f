package console

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// opened opens a link, and reports whether it has let somebody in.
func opened(d *Loopback, link string) bool {
	_, ok := d.open(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, link, nil))
	return ok
}

func TestLinksWorkOnceAndForAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := NewLoopback(&rest.Config{}, "1", "")
		require.Regexp(t, `^[0-9a-f]{32}\.localhost:1$`, d.host)
		require.NotEqual(t, d.host, NewLoopback(&rest.Config{}, "1", "").host)
		first, spent := d.Link()
		second, old := d.Link()
		require.NotEqual(t, first, second)
		head := httptest.NewRequest(http.MethodHead, first, nil)
		_, ok := d.open(httptest.NewRecorder(), head)
		require.False(t, ok, "a browser that only looks")
		time.Sleep(linkWithin - time.Nanosecond)
		require.True(t, opened(d, first))
		<-spent
		require.False(t, opened(d, first), "once")
		time.Sleep(time.Nanosecond)
		<-old
		require.False(t, opened(d, second), "a minute")
		require.False(t, opened(d, "http://"+d.host+"/?session="))
		require.Empty(t, d.links)
	})
}

// served returns a console with a page that acts.
func served(t *testing.T, door Door) *Server {
	t.Helper()
	s, err := New(t.Context(), Options{Door: door, Namespace: "velero", Scheme: runtime.NewScheme(),
		Log:       slog.New(slog.DiscardHandler),
		Templates: fstest.MapFS{"page.html": {Data: []byte(`{{define "page"}}{{.Token}}{{end}}`)}},
		Pages: []Page{{Path: "/queue", Template: "page.html",
			Document: func(context.Context, *Look) (any, error) { return nil, nil }}}})
	require.NoError(t, err)
	return s
}

// TestMadeUpTokensCostNothing sends tokens that nobody knows while the API server is away, and while it refuses them.
func TestMadeUpTokensCostNothing(t *testing.T) {
	t.Parallel()
	var code atomic.Int64
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("Authorization") == "Bearer real" {
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write([]byte(`{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1",
				"status":{"userInfo":{"username":"jane"}}}`))
			return
		}
		w.WriteHeader(int(code.Load()))
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d}`, code.Load())
	}))
	defer api.Close()
	door := NewCluster(&rest.Config{Host: api.URL})
	s := served(t, door)
	send := func(method, path, token, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Host = "console.example"
		r.Header.Set("Origin", "http://console.example")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	for _, says := range []int64{http.StatusServiceUnavailable, http.StatusUnauthorized, http.StatusTooManyRequests} {
		code.Store(says)
		for n := range 20 {
			token := fmt.Sprint("made-up-", n)
			require.GreaterOrEqual(t, send(http.MethodGet, "/queue", token, "").Code, 400)
			got := send(http.MethodPost, "/sign-in", "", url.Values{"bearer": {token}}.Encode())
			require.GreaterOrEqual(t, got.Code, 400)
			require.Empty(t, got.Header().Get("Set-Cookie"))
		}
	}
	require.Empty(t, s.viewers.all)
	require.Empty(t, door.sessions)
	require.Empty(t, s.viewers.asked)

	require.Equal(t, http.StatusOK, send(http.MethodGet, "/queue", "real", "").Code)
	require.Len(t, s.viewers.all, 1)
	api.Close() // who is known stays
	require.Equal(t, http.StatusOK, send(http.MethodGet, "/queue", "real", "").Code)

	// the user of this machine looks at a page that says that it cannot be reached
	own := NewLoopback(&rest.Config{Host: api.URL}, "1", "")
	alone := served(t, own)
	r := httptest.NewRequest(http.MethodGet, "http://"+own.host+"/queue", nil)
	r.AddCookie(&http.Cookie{Name: own.cookie, Value: own.session})
	w := httptest.NewRecorder()
	alone.ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
}

// TestSignInHasAHostOfItsOwn asks for the form at the hosts that "kubectl port-forward" offers.
func TestSignInHasAHostOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		host  string
		hosts []string
		https bool
		own   string // a pattern; "" for no other host
	}{
		{"localhost:8443", nil, false, `^[0-9a-f]{32}\.localhost:8443$`},
		{"127.0.0.1:8443", nil, false, `^[0-9a-f]{32}\.localhost:8443$`},
		{"[::1]:8443", nil, false, `^[0-9a-f]{32}\.localhost:8443$`},
		{"LOCALHOST", nil, false, `^[0-9a-f]{32}\.localhost$`},
		{"localhost:8443", nil, true, ""},
		{"console.example", nil, false, ""},
		{"abc.localhost:8443", nil, false, ""},
		{"10.0.0.1:8443", nil, false, ""},
		{"localhost:8443", []string{"console.example", "localhost:8443"}, false, `^[0-9a-f]{32}\.localhost:8443$`},
		{"127.0.0.1:8443", []string{"127.0.0.1:8443"}, false, ""},
	} {
		s := served(t, NewCluster(&rest.Config{}, tt.hosts...))
		r := httptest.NewRequest(http.MethodGet, "/sign-in?next=/queue", nil)
		r.Host = tt.host
		if tt.https {
			r.Header.Set("X-Forwarded-Proto", "https")
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if tt.own == "" {
			require.Equal(t, http.StatusOK, w.Code, tt.host)
			continue
		}
		require.Equal(t, http.StatusSeeOther, w.Code, "%s: %s", tt.host, w.Body)
		to, err := url.Parse(w.Header().Get("Location"))
		require.NoError(t, err)
		require.Regexp(t, tt.own, to.Host)
		require.Equal(t, "/sign-in?next=%2Fqueue", to.RequestURI())
		again := httptest.NewRequest(http.MethodGet, to.RequestURI(), nil)
		again.Host = to.Host
		w = httptest.NewRecorder()
		s.ServeHTTP(w, again)
		require.Equal(t, http.StatusOK, w.Code, "%s: %s", to.Host, w.Body)
	}
	door := NewCluster(&rest.Config{}, "console.example")
	require.False(t, door.knows("abc.localhost:8443"))
	require.False(t, NewCluster(&rest.Config{}, "localhost:8443").knows("abc.localhost:1"))
}
