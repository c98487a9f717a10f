package main_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// configFile is a file for --config.
func configFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cleat.yaml")
	require.NoError(t, os.WriteFile(path, []byte("apiVersion: cleat.dev/v1\n"+text), 0o600))
	return path
}

// TestTheConfigFilePicksThePolicyAndWhatItsFailureMeans has an admission plugin that fails: it holds the queue, until the
// file says that the built-in policy decides in its place.
func TestTheConfigFilePicksThePolicyAndWhatItsFailureMeans(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/file")
	s.shop = s.workload(2)
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "policy"), "../../policies/testdata/policy").CombinedOutput()
	require.NoError(t, err, "%s", out)
	admission := "backups:\n  admission:\n    plugin: example.io/policy\n    failurePolicy: Hold\n    config: {do: fail}\n"

	holding := s.serve("--plugin-dir", dir, "--config", configFile(t, admission))
	s.available()
	s.must("backup", "create", "held", "--include-namespaces", s.shop)
	s.eventually("the backup waits", func(ctx context.Context) (bool, error) {
		var backup velerov1.Backup
		if err := s.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "held"}, &backup); err != nil {
			return false, err
		}
		wait, err := velerov1.QueueWaitOf(&backup)
		return wait != nil && strings.Contains(wait.Message, "QueueAdmission(example.io/policy): the calendar cannot be reached"), err
	})
	require.NoError(t, holding.stop())

	s.serve("--plugin-dir", dir, "--config", configFile(t, strings.Replace(admission, "Hold", "UseBuiltIn", 1)))
	s.eventually("the backup is done", func(ctx context.Context) (bool, error) {
		var backup velerov1.Backup
		err := s.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "held"}, &backup)
		return backup.Status.Phase == velerov1.BackupPhaseCompleted, err
	})
}

func TestTheServerDoesNotStartWithAPolicyThatIsNotThere(t *testing.T) {
	t.Parallel()
	s := newSite(t, "cleat.dev/file")
	_, errs, err := s.run("server", "--metrics-address", "0", "--plugin-dir", t.TempDir(),
		"--config", configFile(t, "nodeAgent:\n  soothing:\n    plugin: example.io/none\n"))
	require.Error(t, err)
	require.Contains(t, errs, `cleat.yaml:4: nodeAgent.soothing.plugin: unknown LoadSoothing "example.io/none"; known are: cleat.dev/limit`)
}
