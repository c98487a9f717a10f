package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// asProgram is the variable that makes the test binary run localcluster.
const asProgram = "LOCALCLUSTER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// launcher returns a localcluster command whose temporary directory is root.
func launcher(t *testing.T, root string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+root)
	return cmd
}

// shortDir is like t.TempDir, but its path is short enough for a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lc")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func TestRunSetsEnvironmentAndReturnsExitCode(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts a cluster")
	}
	root := shortDir(t)
	out, err := launcher(t, root, "run", "--", "sh", "-c",
		`test -s "$KUBECONFIG" && env | grep ^LOCALCLUSTER_S3_ && exit 7`).Output()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 7, exit.ExitCode(), "%s", exit.Stderr)
	for _, name := range []string{"ENDPOINT=http://127.0.0.1:", "ACCESS_KEY=", "SECRET_KEY=", "REGION=us-east-1\n"} {
		require.Contains(t, string(out), "LOCALCLUSTER_S3_"+name)
	}
	requireNoClusters(t, root)
}

func TestRunRecordsClusterWhileCommandRuns(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts a cluster")
	}
	root := shortDir(t)
	file := filepath.Join(root, "cluster.json")
	out := output(t, launcher(t, root, "run", "-record", file, "--", "sh", "-c",
		"! env | grep ^LOCALCLUSTER_S3_ >&2 && cat "+file))
	var d description
	require.NoError(t, json.Unmarshal([]byte(out), &d))
	require.NotEmpty(t, d.APIServer)
	require.NotEmpty(t, d.S3.SecretKey)
	require.NoFileExists(t, file)
	requireNoClusters(t, root)
}

func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	require.NoError(t, err, "%s", log.String())
	return string(out)
}

func requireNoClusters(t *testing.T, root string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(root, dirPattern))
	require.NoError(t, err)
	require.Empty(t, left)
}
