package console

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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

// FuzzRefuse checks that no request of another host or another site passes.
func FuzzRefuse(f *testing.F) {
	f.Add("127.0.0.1:1", "http://127.0.0.1:1", "same-origin", "navigate", "application/x-www-form-urlencoded")
	f.Add("evil:1", "null", "cross-site", "cors", "text/plain")
	door := NewLoopback(&rest.Config{}, "127.0.0.1:1")
	f.Fuzz(func(t *testing.T, host, origin, site, mode, kind string) {
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
			require.Equal(t, "127.0.0.1:1", host)
			require.NotEqual(t, "PUT", method)
			if method == "POST" {
				parsed, err := url.Parse(origin)
				require.NoError(t, err)
				require.Equal(t, host, parsed.Host)
				require.Contains(t, []string{"", "none", "same-origin"}, site)
			}
		}
	})
}
