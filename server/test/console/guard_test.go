package console_test

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptConsole_Rebinding asks for pages under other names, with other secrets and without any.
func TestAcceptConsole_Rebinding(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	c := open(t, s)
	require.Regexp(t, `^http://[0-9a-f]{32}\.localhost:\d+$`, c.base)
	nobody, user := &visitor{console: c}, c.user()
	require.Equal(t, http.StatusOK, user.get("/queue").code)

	link := strings.TrimPrefix(c.link, c.base)
	port := c.base[strings.LastIndex(c.base, ":"):]
	for _, host := range []string{"evil.example" + port, "localhost" + port, "127.0.0.1" + port, "127.0.0.1",
		"[::1]" + port, strings.Repeat("0", 32) + ".localhost" + port, strings.TrimPrefix(c.base, "http://") + ".evil.example",
		"evil.example"} {
		got := user.get("/queue", "Host", host)
		require.Equal(t, http.StatusForbidden, got.code, host)
		require.Contains(t, got.text, "this console is not at "+host)
		require.Equal(t, http.StatusForbidden, nobody.get(link, "Host", host).code, host)
	}
	require.Equal(t, http.StatusUnauthorized, nobody.get("/").code)
	require.Contains(t, nobody.get("/").text, "open the link that it prints")
	require.Equal(t, http.StatusForbidden, nobody.get("/?session=x").code)
	require.Equal(t, http.StatusForbidden, nobody.get("/?session=").code)
	secret := strings.TrimPrefix(link, "/?session=")
	for _, cookie := range []string{"x", "", secret, user.tab} {
		name, _, _ := strings.Cut(user.cookie, "=")
		stranger := &visitor{console: c, cookie: name + "=" + cookie}
		require.Equal(t, http.StatusUnauthorized, stranger.get("/queue").code)
		require.Equal(t, http.StatusUnauthorized, stranger.get("/queue", "Accept", "text/event-stream").code)
	}
	require.Equal(t, http.StatusUnauthorized, (&visitor{console: c, token: "x"}).get("/queue").code,
		"a token is for a console in a cluster")
	require.Equal(t, http.StatusForbidden, nobody.send(http.MethodHead, link, nil).code, "who only looks spends no link")
	(&visitor{console: c}).enter(nobody.get("/queue?session="+secret+"&a=b", "Sec-Fetch-Site", "none"), "/queue?a=b")
	require.Contains(t, nobody.get(link).text, "this link was opened before")
	require.Equal(t, "/", user.get(link).header.Get("Location"), "a tab that is loaded again")

	named := open(t, s, "--host", "127.0.0.1")
	require.Regexp(t, `^http://127\.0\.0\.1:\d+$`, named.base)
	require.Equal(t, http.StatusOK, named.user().get("/queue").code)
}

// TestAcceptConsole_CrossSite sends what pages of other sites could have browsers send.
func TestAcceptConsole_CrossSite(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	require.NoError(t, s.Client.Create(t.Context(), &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "nightly"}}))
	user := open(t, s).user()
	const path = "/backups/nightly/cancel"
	form := user.form(path)
	cancelled := func() bool {
		var b velerov1.Backup
		require.NoError(t, s.Client.Get(t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: "nightly"}, &b))
		return velerov1.CancelRequested(&b)
	}
	for name, tt := range map[string]struct {
		form    url.Values
		headers []string
		code    int
		says    string
	}{
		"another origin": {form, []string{"Origin", "https://evil.example"}, http.StatusForbidden, "another site"},
		"no origin":      {form, []string{"Origin", ""}, http.StatusForbidden, "another site"},
		"null origin":    {form, []string{"Origin", "null"}, http.StatusForbidden, "another site"},
		"another port":   {form, []string{"Origin", "http://127.0.0.1:1"}, http.StatusForbidden, "another site"},
		"a file": {form, []string{"Origin", "file://" + strings.TrimPrefix(user.base, "http://")}, http.StatusForbidden,
			"another site"},
		"cross-site": {form, []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden, "another site"},
		"same-site":  {form, []string{"Sec-Fetch-Site", "same-site"}, http.StatusForbidden, "another site"},
		"navigation": {form, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}, http.StatusForbidden,
			"another site"},
		"text":           {form, []string{"Content-Type", "text/plain"}, http.StatusForbidden, "forms alone"},
		"no type":        {form, []string{"Content-Type", ""}, http.StatusForbidden, "forms alone"},
		"no token":       {url.Values{"uid": form["uid"]}, nil, http.StatusForbidden, "load it again"},
		"a wrong token":  {url.Values{"uid": form["uid"], "token": {"x"}}, nil, http.StatusForbidden, "load it again"},
		"another tab":    {with(form, "tab", "x"), nil, http.StatusForbidden, "this tab shows pages alone"},
		"no tab":         {with(form, "tab", ""), nil, http.StatusForbidden, "this tab shows pages alone"},
		"another object": {url.Values{"uid": {"x"}, "token": form["token"]}, nil, http.StatusBadRequest, "created again"},
		"the session":    {form, []string{"Cookie", ""}, http.StatusUnauthorized, "does not know you"},
	} {
		got := user.post(path, tt.form, tt.headers...)
		require.Equal(t, tt.code, got.code, "%s: %s", name, got.text)
		require.Contains(t, got.text, tt.says, name)
	}
	for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodOptions, "TRACK"} {
		require.Equal(t, http.StatusForbidden, user.send(method, path, form, "Origin", user.base).code, method)
	}
	require.Equal(t, http.StatusForbidden, user.get("/queue", "Sec-Fetch-Site", "cross-site").code)
	require.Equal(t, http.StatusForbidden, user.get("/queue", "Origin", "https://evil.example").code)
	require.Equal(t, http.StatusBadRequest, user.post("/queue", form).code, "it has no form")
	require.False(t, cancelled())

	page := user.get("/queue", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate")
	require.Equal(t, http.StatusOK, page.code, "a link of another site")
	for header, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
			"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store",
		"X-Frame-Options": "DENY",
	} {
		require.Equal(t, want, page.header.Get(header), header)
	}
	require.Empty(t, page.header.Values("Access-Control-Allow-Origin"))

	got := user.post(path, form)
	require.Equal(t, http.StatusSeeOther, got.code, got.text)
	require.Equal(t, "/backups/nightly", got.header.Get("Location"))
	require.True(t, cancelled())
}

// with returns a form with another value of a field.
func with(form url.Values, field, value string) url.Values {
	form = maps.Clone(form)
	form.Set(field, value)
	return form
}
