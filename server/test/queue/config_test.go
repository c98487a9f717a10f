package queue_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/test/programs"
	"github.com/cleat-dev/cleat/server/test/site"
)

// TestConfigFileSelectsPolicyAndFailurePolicy has an admission plugin that fails: it holds the queue until the file
// selects the built-in policy as its replacement.
func TestConfigFileSelectsPolicyAndFailurePolicy(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	s.Shop = s.Workload(2)
	dir := t.TempDir()
	programs.Copy(t, "server/internal/control/policy/testdata/policy", filepath.Join(dir, "policy"))
	admission := "backups:\n  admission:\n    plugin: example.io/policy\n    failurePolicy: Hold\n    config: {do: fail}\n"

	holding := s.Serve("--plugin-dir", dir, "--config", site.ConfigFile(t, admission))
	s.Available()
	s.Must("backup", "create", "held", "--include-namespaces", s.Shop)
	s.Eventually("the backup waits", func(ctx context.Context) (bool, error) {
		var backup velerov1.Backup
		if err := s.Client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: "held"}, &backup); err != nil {
			return false, err
		}
		wait, err := velerov1.QueueWaitOf(&backup)
		return wait != nil && strings.Contains(wait.Message,
			"QueueAdmission(example.io/policy): the calendar cannot be reached"), err
	})
	require.NoError(t, holding.Stop())

	s.Serve("--plugin-dir", dir, "--config", site.ConfigFile(t, strings.Replace(admission, "Hold", "UseBuiltIn", 1)))
	s.Eventually("the backup is done", func(ctx context.Context) (bool, error) {
		var backup velerov1.Backup
		err := s.Client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: "held"}, &backup)
		return backup.Status.Phase == velerov1.BackupPhaseCompleted, err
	})
}

func TestServerRefusesUnusablePolicy(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	for name, test := range map[string]struct{ policy, want string }{
		"not there": {"example.io/none", `unknown LoadSoothing "example.io/none"; known are: cleat.dev/prepare-queue`},
		"of another kind": {"cleat.dev/fifo",
			`"cleat.dev/fifo" is not a LoadSoothing but a plugin of the kind QueueAdmission`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "broken"), []byte("#!/no/such/interpreter\n"), 0o700)) //nolint:gosec // it is to be started
			_, errs, err := s.Run("server", "--metrics-address", "0", "--plugin-dir", dir,
				"--config", site.ConfigFile(t, "nodeAgent:\n  soothing:\n    plugin: "+test.policy+"\n"))
			require.Error(t, err)
			require.Contains(t, errs, "cleat.yaml:4: nodeAgent.soothing.plugin: "+test.want)
			require.Contains(t, errs, "; quarantined: "+filepath.Join(dir, "broken")+" (", "it may be the one that is meant")
		})
	}
}
