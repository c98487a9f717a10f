package site

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// KubeconfigOf returns the path of a kubeconfig for a service account of the installation.
func (s *Site) KubeconfigOf(account string) string {
	s.T.Helper()
	return s.Cluster.AccountKubeconfig(s.T, s.Namespace, account)
}

// RequireRights fails for each line of a log that reports a forbidden request.
func RequireRights(t *testing.T, log *LogBuffer) {
	t.Helper()
	for line := range strings.Lines(log.String()) {
		assert.NotContains(t, line, "forbidden")
	}
}

// AnswerAsVelero answers the next request like Velero's server.
func (s *Site) AnswerAsVelero(ctx context.Context, version string, plugins ...velerov1.PluginInfo) error {
	for {
		var requests velerov1.ServerStatusRequestList
		if err := s.Client.List(ctx, &requests, client.InNamespace(s.Namespace)); err != nil {
			return err
		}
		for i := range requests.Items {
			request := &requests.Items[i]
			if request.Status.Phase == velerov1.ServerStatusRequestPhaseProcessed {
				continue
			}
			before := request.DeepCopy()
			request.Status.Phase, request.Status.ServerVersion = velerov1.ServerStatusRequestPhaseProcessed, version
			request.Status.Plugins = plugins
			return s.Client.Patch(ctx, request, client.MergeFrom(before))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// RunPage runs the indented cleat commands in a section of a page of server/docs, or in the whole page if section is
// empty, and returns their number. ./plugins has the plugin of dir, ./mover.tar is the image of dir, ./credentials are
// credentials of an object store.
func (s *Site) RunPage(t *testing.T, page, section, dir string) (commands int) {
	t.Helper()
	work := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(work, "plugins"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(work, "credentials"), []byte("[default]\n"), 0o600))
	for file, to := range map[string]string{"kinds": "plugins/kinds", "mover.tar": "mover.tar"} {
		err := os.Link(filepath.Join(dir, file), filepath.Join(work, to))
		require.True(t, err == nil || os.IsNotExist(err), "%v", err)
	}
	content, err := os.ReadFile("../../docs/" + page + ".md")
	require.NoError(t, err)
	text := string(content)
	if section != "" {
		_, rest, found := strings.Cut(text, "\n## "+section+"\n")
		require.True(t, found, "%s.md has no section %q", page, section)
		text, _, _ = strings.Cut(rest, "\n## ")
	}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "    cleat ") {
			continue
		}
		commands++
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
		cmd.Dir = work
		cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(Program(t))+":"+os.Getenv("PATH"), "KUBECONFIG="+s.Kubeconfig,
			"HOME="+work, "VELERO_NAMESPACE="+s.Namespace)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s%s", line, out)
	}
	return commands
}
