package console_test

import (
	"context"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// signIn signs in with a token, as with the form.
func (c *console) signIn(token string) *visitor {
	c.t.Helper()
	v := &visitor{console: c}
	v.enter(v.post("/sign-in", url.Values{"bearer": {token}, "next": {"/queue"}}), "/queue")
	return v
}

// signOut signs out, as with the button.
func (v *visitor) signOut() {
	v.t.Helper()
	token := tokenField.FindStringSubmatch(v.get("/queue").text)
	require.NotNil(v.t, token)
	require.Equal(v.t, http.StatusSeeOther, v.post("/sign-out", url.Values{"token": {token[1]}}).code)
}

// TestAcceptConsole_SignIn signs in and out. What is open ends at once, in all tabs, and the watches with the last
// session of a token.
func TestAcceptConsole_SignIn(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	create := func(name string) {
		t.Helper()
		require.NoError(t, s.Client.Create(t.Context(), &velerov1.Backup{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}))
	}
	create("nightly")
	var watches atomic.Int64
	gate := &site.Gate{Answer: func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Has("watch") {
			watches.Add(1)
			context.AfterFunc(r.Context(), func() { watches.Add(-1) })
		}
		return false
	}}
	kubeconfig, _ := gate.Behind(t, s.Cluster)
	c := inCluster(t, s, "--kubeconfig", kubeconfig)

	first, second := c.signIn(s.Cluster.Token), c.signIn(s.Cluster.Token)
	left, stays := first.events("/queue"), second.events("/queue")
	left.until("nightly")
	stays.until("nightly")
	first.signOut()
	left.until("you have signed out: sign in again")
	_, more := <-left.next
	require.False(t, more, "the page ends")
	require.Equal(t, http.StatusUnauthorized, first.get("/queue").code)
	create("later")
	stays.until("later")
	require.Positive(t, watches.Load())
	began := time.Now()
	second.signOut()
	stays.until("you have signed out: sign in again")
	s.Eventually("no watch is left", func(context.Context) (bool, error) { return watches.Load() == 0, nil })
	t.Logf("the watches have ended after %s", time.Since(began).Round(time.Millisecond))
	require.Less(t, time.Since(began), 45*time.Second, "they do not wait until nobody has looked for a minute")

	b := browse(t, c)
	for view, width := range map[string]int{"desk": 1200, "phone": 360} {
		b.view(width, 900, false, false)
		b.settle("/sign-in?next=/queue")
		b.requireUsable(view + " sign-in")
		b.compare(view, "sign-in", [][2]string{{s.Namespace, "velero"}})
		b.view(width, 900, true, false)
		b.requireNoFindings(view+" sign-in in dark", "color-contrast")
	}
	b.reach("bearer")
	b.keys(s.Cluster.Token + enter)
	b.arrives("/queue")
	b.shows("nightly")
	other := b.another()
	other.open("/queue")
	other.until(`window.feeds.length === 1 && window.feeds[0].came`)
	other.shows("nightly")
	b.press("Sign out")
	b.arrives("/sign-in")
	other.arrives("/sign-in")
	require.Equal(t, "?next=%2Fqueue", eval[string](other, "location.search"))
	other.shows("Token")
}
