package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// asProgram makes the test binary behave as localcluster itself.
const asProgram = "LOCALCLUSTER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// launcher is a localcluster command with temporary and state directories of its own.
func launcher(t *testing.T, root string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+root, "XDG_STATE_HOME="+root)
	return cmd
}

// shortDir is like t.TempDir, but short enough for the path of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lc")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func TestRunHandsTheClusterToItsCommandAndPassesOnTheExitCode(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts a cluster")
	}
	root := shortDir(t)
	out, err := launcher(t, root, "run", "--", "sh", "-c", `test -s "$KUBECONFIG" && env | grep ^LOCALCLUSTER_S3_ && exit 7`).Output()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 7, exit.ExitCode(), "%s", exit.Stderr)
	for _, name := range []string{"ENDPOINT=http://127.0.0.1:", "ACCESS_KEY=", "SECRET_KEY=", "REGION=us-east-1\n"} {
		require.Contains(t, string(out), "LOCALCLUSTER_S3_"+name)
	}
	requireEmptyOfClusters(t, root)
}

func TestUpFindsItsClusterAgainAndDownRemovesIt(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts a cluster")
	}
	root := shortDir(t)
	t.Cleanup(func() { _ = launcher(t, root, "down").Run() }) // when the test fails half-way
	first := output(t, launcher(t, root, "up"))
	require.Contains(t, first, "export KUBECONFIG='"+root)

	data, err := os.ReadFile(filepath.Join(root, "cleat", "localcluster", "cluster.json"))
	require.NoError(t, err)
	var d description
	require.NoError(t, json.Unmarshal(data, &d))
	sign := func(r *http.Request) { signV4(r, nil, d.S3.AccessKey, d.S3.SecretKey, d.S3.Region, time.Now()) }
	require.NoError(t, ask(t.Context(), http.DefaultClient, d.S3.Endpoint+"/", sign), "it outlives the command that started it")

	require.Equal(t, first, output(t, launcher(t, root, "up")), "a second up finds the first")
	output(t, launcher(t, root, "down"))
	requireEmptyOfClusters(t, root)
	require.Error(t, ask(t.Context(), http.DefaultClient, d.S3.Endpoint+"/", sign), "nothing listens any more")
	output(t, launcher(t, root, "down"))
}

func TestUpSaysWhyTheClusterDidNotStart(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts a cluster")
	}
	root := shortDir(t)
	cmd := launcher(t, root, "up", "-apiserver-flag", "--no-such-flag")
	var said bytes.Buffer
	cmd.Stderr = &said
	require.Error(t, cmd.Run())
	require.Contains(t, said.String(), "unknown flag: --no-such-flag")
	requireEmptyOfClusters(t, root)
}

func TestBuildThatFailsIsReportedByTheProgram(t *testing.T) {
	fakeGo(t, `echo "disk full" >&2; exit 5`)
	t.Setenv("KUBEBUILDER_ASSETS", "")
	cmd := launcher(t, t.TempDir(), "run", "--", "true")
	var said bytes.Buffer
	cmd.Stderr = &said
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Run(), &exit)
	require.Equal(t, 1, exit.ExitCode())
	require.Contains(t, said.String(), "localcluster: building etcd v3.7.3: go build")
}

func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	require.NoError(t, err, "%s", said.String())
	return string(out)
}

func requireEmptyOfClusters(t *testing.T, root string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(root, dirPattern))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestCommandsThatMakeNoSenseAreExplained(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		says string
	}{
		"none":             {nil, "a command is missing: up, down, run, serve or build"},
		"unknown":          {[]string{"start"}, `unknown command "start"`},
		"argument to up":   {[]string{"up", "now"}, `up takes no arguments, got ["now"]`},
		"flag of another":  {[]string{"build", "-s3-tls"}, "not defined: -s3-tls"},
		"output of serve":  {[]string{"serve", "-o", "yaml"}, "-o yaml: want text or json"},
		"flag lacks value": {[]string{"run", "-kcm-flag"}, "needs an argument: -kcm-flag"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.ErrorContains(t, command(t.Context(), test.args), test.says)
		})
	}
}

func TestLinesThatAreNoCommandAreExplained(t *testing.T) {
	t.Parallel()
	c := &cluster{components: []*component{{name: s3}}}
	for line, says := range map[string]string{
		"":            "want a verb and a component",
		"stop":        "want a verb and a component",
		"stop s3 now": "want a verb and a component",
		"stop minio":  `unknown component "minio"`,
		"stop s3":     "s3 is not running",
		"pause s3":    `unknown command "pause"`,
	} {
		answer := answer(t.Context(), c, line)
		require.False(t, answer.OK, line)
		require.Contains(t, answer.Error, says, line)
	}
}
