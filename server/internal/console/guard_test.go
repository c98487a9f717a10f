package console

import (
	"bufio"
	"bytes"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

func TestLocal(t *testing.T) {
	t.Parallel()
	for link, want := range map[string]string{
		"/": "/", "/queue?a=b&c": "/queue?a=b&c", "/backups/a%2Fb": "/backups/a/b", "": "/", "queue": "/",
		"//evil.example/": "/",
		"/\\evil.example": "/", "https://evil.example/": "/", "javascript:alert(1)": "/", "/%2F/evil.example": "/",
		"http:/queue": "/", "/queue#part": "/queue", "/a%0d%0aSet-Cookie:x": "/", "/%5Cevil.example": "/",
	} {
		require.Equal(t, want, local(link), link)
	}
}

func TestCleanToken(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		" a.b-c_d \n": "a.b-c_d", "": "", "two words": "", "a\r\nb": "", "ä": "", strings.Repeat("a", 20<<10): "",
	} {
		require.Equal(t, want, cleanToken(text), "%.20q", text)
	}
}

// FuzzLocal checks that no link leads elsewhere.
func FuzzLocal(f *testing.F) {
	for _, seed := range []string{"/queue?a=b", "//evil.example", "/\\evil", "https://evil", "/%2f%2fevil",
		"/a/../..//evil"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, link string) {
		path := local(link)
		require.Regexp(t, `^/([^/\\].*)?$`, path)
		base, err := url.Parse("http://127.0.0.1:1")
		require.NoError(t, err)
		there, err := base.Parse(path)
		require.NoError(t, err)
		require.Equal(t, "127.0.0.1:1", there.Host)
		require.NotContains(t, path, "\n")
	})
}

// FuzzRefuse checks that no request of another host or another site passes. Most names of hosts are wrong, so each
// request is sent to the right one too.
func FuzzRefuse(f *testing.F) {
	const here = "own.localhost:1"
	f.Add(here, "http://own.localhost:1", "same-origin", "navigate", "application/x-www-form-urlencoded")
	f.Add("evil:1", "null", "cross-site", "cors", "text/plain")
	f.Add("own.localhost:1.", "http://own.localhost:1@evil", "none", "",
		"application/x-www-form-urlencoded; charset=utf-8")
	door := NewLoopback(&rest.Config{}, "1", "own.localhost")
	f.Fuzz(func(t *testing.T, host, origin, site, mode, kind string) {
		for _, host := range []string{host, here} {
			for _, method := range []string{"GET", "POST", "PUT"} {
				r := httptest.NewRequest(method, "/queue", strings.NewReader(""))
				r.Host = host
				for key, value := range map[string]string{"Origin": origin, "Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode,
					"Content-Type": kind} {
					r.Header.Set(key, value)
				}
				if refuse(door, r) != "" {
					continue
				}
				require.Equal(t, here, host)
				require.NotEqual(t, "PUT", method)
				if method == "GET" {
					require.True(t, mode == "navigate" || site == "" || site == "none" || site == "same-origin", site)
					continue
				}
				parsed, err := url.Parse(origin)
				require.NoError(t, err)
				require.Equal(t, host, parsed.Host)
				require.Contains(t, []string{"", "none", "same-origin"}, site)
				require.Regexp(t, `^(?i)\s*application/x-www-form-urlencoded\s*(;.*)?$`, kind)
			}
		}
	})
}

// FuzzRequest sends whole requests to a console without an API server: only the secret of the link opens it, no answer
// has it or leads elsewhere, and none fails.
func FuzzRequest(f *testing.F) {
	const here = "own.localhost:1"
	door := NewLoopback(&rest.Config{}, "1", "own.localhost")
	door.session, door.tab = "the-session", "the-tab"
	for _, seed := range []string{
		"GET /queue?session=the-secret&a=b HTTP/1.1\r\nHost: own.localhost:1\r\n\r\n",
		"GET //evil.example/?session=the-secret HTTP/1.1\r\nHost: own.localhost:1\r\n\r\n",
		"GET /backups/a%2Fb?session=x;session=the-secret HTTP/1.1\r\nHost: own.localhost:1\r\n" +
			"Accept: text/event-stream\r\n\r\n",
		"POST /queue?session=the-secret HTTP/1.1\r\nHost: own.localhost:1\r\nOrigin: http://own.localhost:1\r\n" +
			"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\n\r\na=b",
		"GET http://evil.example/queue HTTP/1.1\r\nHost: evil.example\r\nCookie: cleat-console-1=x\r\n" +
			"Accept: application/json\r\n\r\n",
	} {
		f.Add([]byte(seed))
	}
	s, err := New(f.Context(), Options{Door: door, Namespace: "velero", Scheme: runtime.NewScheme(),
		Log: slog.New(slog.DiscardHandler), Templates: fstest.MapFS{"page.html": {Data: []byte(`{{define "page"}}a{{end}}`)}},
		Pages: []Page{{Path: "/queue", Template: "page.html"}, {Path: "/backups/{name}", Template: "page.html",
			Title: "Backup {name}"}}})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(text)))
		if err != nil {
			return
		}
		if cookie, err := r.Cookie(door.cookie); err == nil && cookie.Value == door.session {
			return // whoever has it may see everything
		}
		door.links[hash("the-secret")] = make(chan struct{})
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		require.Less(t, w.Code, 500)
		if r.Host != here {
			require.Equal(t, http.StatusForbidden, w.Code)
		}
		cookie := w.Header().Get("Set-Cookie")
		require.Equal(t, cookie != "", door.links[hash("the-secret")] == nil, "a link is spent if it has opened the console")
		require.Equal(t, cookie != "", strings.Contains(w.Body.String(), door.tab))
		require.NotContains(t, w.Body.String(), door.session)
		require.NotContains(t, w.Header().Get("Location"), door.session)
		if cookie == "" {
			return
		}
		require.Empty(t, w.Header().Get("Location"))
		require.Equal(t, "the-secret", r.URL.Query().Get("session"))
		require.Equal(t, http.StatusOK, w.Code)
		next := refresh.FindStringSubmatch(w.Body.String())
		require.NotNil(t, next)
		to := html.UnescapeString(next[1])
		require.Regexp(t, `^/([^/\\].*)?$`, to, "it leads to a page of the console")
		there, err := url.Parse(to)
		require.NoError(t, err)
		require.Empty(t, there.Host+there.Scheme)
		require.False(t, there.Query().Has("session"), to)
	})
}

var refresh = regexp.MustCompile(`<meta http-equiv="refresh" content="0;url=([^"]*)">`)
