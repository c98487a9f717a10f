package console_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptConsole_Reconnects cuts the console off from the API server: an open page says so, a page that is opened
// then as well, and both go on when it is back, with what has changed meanwhile.
func TestAcceptConsole_Reconnects(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	create := func(name string) {
		t.Helper()
		require.NoError(t, s.Client.Create(t.Context(), &velerov1.Backup{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}))
	}
	create("before")
	wire, proxied := site.WireTo(t, s.Cluster.APIServer)
	config, err := os.ReadFile(s.Kubeconfig)
	require.NoError(t, err)
	behind := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(behind,
		[]byte(strings.ReplaceAll(string(config), s.Cluster.APIServer, proxied)), 0o600))
	user := open(t, s, "--kubeconfig", behind).user()
	page := user.events("/queue")
	page.until("before")
	wire.Refuse()
	require.Contains(t, page.until("reconnecting: "), "before", "what was there is shown")
	create("meanwhile")
	require.Contains(t, user.get("/queue").text, "reconnecting: the backups are those of ")
	require.NoError(t, wire.Connect())
	require.NotContains(t, page.until("meanwhile"), "reconnecting: ")
}
