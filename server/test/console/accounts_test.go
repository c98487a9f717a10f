package console_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// paths are those of all pages that a link leads to.
func paths(backup string) []string {
	return []string{"/", "/queue", "/queue/" + backup, "/backups", "/backups/" + backup, "/backups/" + backup + "/log",
		"/backups/" + backup + "/cancel", "/backups/" + backup + "/delete", "/restores", "/operations", "/loads",
		"/schedules",
		"/locations", "/plugins"}
}

// account creates a service account with rules in the namespace of the site, and returns a token of it.
func account(s *site.Site, name string, rules ...rbacv1.PolicyRule) (token string) {
	s.T.Helper()
	meta := metav1.ObjectMeta{Namespace: s.Namespace, Name: name}
	require.NoError(s.T, s.Client.Create(s.T.Context(), &corev1.ServiceAccount{ObjectMeta: meta}))
	require.NoError(s.T, s.Client.Create(s.T.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}))
	require.NoError(s.T, s.Client.Create(s.T.Context(), &rbacv1.RoleBinding{ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.Namespace, Name: name}}}))
	config, err := clientcmd.BuildConfigFromFlags("", s.KubeconfigOf(name))
	require.NoError(s.T, err)
	return config.BearerToken
}

// reads are the rights to read the custom resources of a namespace.
func reads() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{"velero.io"}, Resources: []string{"*"}, Verbs: []string{"get", "list",
		"watch"}}
}

// TestAcceptConsole_Rights looks with three accounts: the pages have what the API server lets each see, and say what it
// does not.
func TestAcceptConsole_Rights(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	const secret = "payroll-of-the-board"
	require.NoError(t, s.Client.Create(t.Context(), &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: secret}}))
	// The page shows the first namespaces by name; other tests make hundreds.
	elsewhere := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-hidden-"}}
	require.NoError(t, s.Client.Create(t.Context(), elsewhere))
	admin, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	require.NoError(t, err)
	require.NotEmpty(t, admin.BearerToken+string(admin.CertData)+admin.CertFile, "the console starts with credentials")
	c := inCluster(t, s)

	all := c.account(s.Cluster.Token)
	one, none := c.account(account(s, "one", reads())), c.account(account(s, "none"))
	for _, path := range paths(secret) {
		got := all.get(path)
		require.Equal(t, http.StatusOK, got.code, "%s: %s", path, got.text)
		got = none.get(path)
		require.Contains(t, []int{http.StatusOK, http.StatusForbidden}, got.code, "%s: %s", path, got.text)
		if !strings.Contains(path, secret) {
			require.NotContains(t, got.text, secret, path)
			require.NotContains(t, none.get(path, "Accept", "application/json").text, secret, path)
		}
		require.NotContains(t, got.text, elsewhere.Name, path)
		require.NotContains(t, one.get(path).text, elsewhere.Name, path)
		got = (&visitor{console: c}).get(path)
		require.Equal(t, http.StatusUnauthorized, got.code, path)
		require.Contains(t, got.text, `href="/sign-in?next=`, path)
		require.NotContains(t, got.text, s.Namespace, path)
		require.Equal(t, http.StatusUnauthorized, c.account("x").get(path).code, path)
	}
	require.Contains(t, all.get("/").text, elsewhere.Name)
	require.Contains(t, one.get("/").text, "you may not list namespaces")
	require.Contains(t, one.get("/").text, "you may not list persistentvolumeclaims")
	require.Contains(t, one.get("/backups/"+secret+"/log").text, "you may not get pods/log")
	for _, path := range []string{"/queue", "/backups"} {
		require.Contains(t, all.get(path).text, secret)
		require.Contains(t, one.get(path).text, secret)
		require.Contains(t, none.get(path).text, "you may not list backups in namespace "+s.Namespace)
	}
	require.Contains(t, none.get("/backups/"+secret).text, "you may not get backup "+secret)
	require.Contains(t, none.events("/queue").until("you may not list"), "you may not list backups")
	require.Contains(t, one.get("/").text, "with the rights of system:serviceaccount:"+s.Namespace+":one")

	// what somebody may not do is said before and refused afterwards
	const path = "/backups/" + secret + "/cancel"
	form := all.form(path)
	require.Contains(t, one.get(path).text, "you may not patch backups")
	require.NotContains(t, one.get(path).text, "<button")
	forgery := url.Values{"uid": form["uid"], "token": {forged(one.token)}}
	got := one.post(path, forgery)
	require.Equal(t, http.StatusForbidden, got.code, got.text)
	require.Equal(t, http.StatusForbidden, one.post("/backups/"+secret+"/delete", forgery).code)
	require.Equal(t, http.StatusForbidden, one.post(path, form).code, "the form of another viewer")
	var b velerov1.Backup
	require.NoError(t, s.Client.Get(t.Context(), s.Key(secret), &b))
	require.False(t, velerov1.CancelRequested(&b))

	// rights that are taken away are missed at the next look
	require.NoError(t, s.Client.Delete(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "one"}}))
	s.Eventually("the rights are gone", func(context.Context) (bool, error) {
		return strings.Contains(one.get("/queue").text, "you may not list backups"), nil
	})
	require.NotContains(t, one.get("/queue").text, secret)

	// somebody signs in with a form
	nobody := &visitor{console: c}
	require.Contains(t, nobody.get("/sign-in?next=/queue").text, `name="next" value="/queue"`)
	require.Contains(t, nobody.get("/sign-in?next=//evil.example/").text, `name="next" value="/"`)
	got = nobody.post("/sign-in", url.Values{"bearer": {"wrong"}, "next": {"/queue"}})
	require.Equal(t, http.StatusUnauthorized, got.code)
	require.Contains(t, got.text, "does not accept this token")
	require.Empty(t, got.header.Get("Set-Cookie"))
	require.Equal(t, http.StatusBadRequest, nobody.post("/sign-in", url.Values{"bearer": {"two words"}}).code)
	signedIn := &visitor{console: c}
	cookie := signedIn.enter(nobody.post("/sign-in", url.Values{"bearer": {" " + s.Cluster.Token + "\n"},
		"next": {"/queue"}}), "/queue")
	for _, want := range []string{"__Host-", "HttpOnly", "Secure", "SameSite=Strict", "Path=/"} {
		require.Contains(t, cookie, want)
	}
	require.NotContains(t, cookie, s.Cluster.Token)
	got = signedIn.post(path, with(signedIn.form(path), "tab", ""))
	require.Equal(t, http.StatusForbidden, got.code, "a cookie alone does nothing")
	require.Contains(t, got.text, "a tab in which somebody has signed in")
	page := signedIn.get("/queue")
	require.Contains(t, page.text, secret)
	token := tokenField.FindStringSubmatch(page.text)
	require.Equal(t, http.StatusForbidden, signedIn.post("/sign-out", url.Values{"token": {"x"}}).code)
	require.Equal(t, http.StatusSeeOther, signedIn.post("/sign-out", url.Values{"token": {token[1]}}).code)
	require.Equal(t, http.StatusUnauthorized, signedIn.get("/queue").code)
}

// TestAcceptConsole_TokenExpires deletes an account while it looks: its open page ends with the way to sign in, and
// nothing is shown any more.
func TestAcceptConsole_TokenExpires(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	require.NoError(t, s.Client.Create(t.Context(), &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "nightly"}}))
	c := inCluster(t, s, "--recheck", "1s")
	guest := c.account(account(s, "guest", reads()))
	open := guest.events("/queue")
	open.until("nightly")
	require.NoError(t, s.Client.Delete(t.Context(), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "guest"}}))
	began := time.Now()
	last := open.until("sign in again")
	t.Logf("the page has ended after %s", time.Since(began).Round(time.Millisecond))
	require.NotContains(t, last, "nightly")
	require.Contains(t, last, `href="/sign-in?next=%2Fqueue"`)
	_, more := <-open.next
	require.False(t, more, "the page ends")
	for range 2 {
		got := guest.get("/queue")
		require.Equal(t, http.StatusUnauthorized, got.code)
		require.NotContains(t, got.text, "nightly")
	}
	err := s.Client.Get(t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: "guest"}, &corev1.ServiceAccount{})
	require.True(t, apierrors.IsNotFound(err))
}
