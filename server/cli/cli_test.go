package cli

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/cli/command"
)

// execute runs a command that needs no cluster.
func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := New(command.Streams{Out: &out, Err: &out}, "v1.2.3", args).ExecuteContext(t.Context())
	return out.String(), err
}

func TestHelpListsTheCommands(t *testing.T) {
	t.Parallel()
	out, err := execute(t, "--help")
	require.NoError(t, err)
	for _, command := range []string{"backup ", "restore ", "schedule ", "queue ", "manifest ", "operations ", "install ",
		"server ", "version "} {
		require.Contains(t, out, "  "+command)
	}
	require.NotContains(t, out, "run-plugins", "it is for the server")
	out, err = execute(t, "backup")
	require.NoError(t, err)
	for _, command := range []string{"create", "get", "describe", "logs", "cancel", "delete"} {
		require.Contains(t, out, "  "+command+" ")
	}
}

func TestVersionOfTheClient(t *testing.T) {
	t.Parallel()
	out, err := execute(t, "version", "--client-only")
	require.NoError(t, err)
	require.Equal(t, "Client: v1.2.3\n", out)
}

func TestErrorsSayWhatWouldBeRight(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"unknown command": {[]string{"backups"}, `unknown command "backups"`},
		"unknown below": {[]string{"plugin", "show"},
			`unknown command "show" for "cleat plugin"; there are add, get, info, init, lock, order, remove, test, verify`},
		"no name": {[]string{"plugin", "info"}, "accepts 1 arg(s), received 0; usage: cleat plugin info NAME|FILE [flags]"},
		"unknown flag": {[]string{"backup", "create", "--no-such"},
			`unknown flag: --no-such; "cleat backup create --help" lists the flags`},
		"bad switch":  {[]string{"backup", "create", "x", "--snapshot-volumes=maybe"}, `"maybe": want true or false`},
		"two names":   {[]string{"backup", "create", "x", "y"}, "accepts at most 1 arg"},
		"no times":    {[]string{"schedule", "create", "x"}, `say when to back up: --schedule "0 3 * * *"`},
		"no source":   {[]string{"restore", "create", "x"}, "--from-backup or --from-schedule"},
		"bad mapping": {[]string{"restore", "create", "--from-backup", "x", "--namespace-mappings", "a"}, "want FROM:TO"},
		"no location": {[]string{"install"}, "--provider and --bucket, or use --no-default-backup-location\nname the " +
			"file of the credentials with --secret-file, or use --no-secret"},
		"agents": {[]string{"install", "--use-node-agent-windows", "--node-agent-disable-host-path"},
			"the node agent runs on Linux only; volumes of Windows nodes can be backed up by " +
				"snapshots\n--node-agent-disable-host-path: node agents open volumes"},
		"agent resources": {[]string{"install", "--use-node-agent", "--kubelet-root-dir", "k", "--node-agent-pod-mem-limit",
			"lots"}, "--kubelet-root-dir \"k\": want an absolute path\n--node-agent-pod-mem-limit \"lots\""},
		"no plugin": {[]string{"install", "--provider", "aws", "--bucket", "b", "--no-secret"},
			"--provider aws is not built in: name the image of its plugin with --plugins"},
		"no namespaces": {[]string{"install", "--rbac", "least"}, "in --rbac-namespaces"},
		"all volumes": {[]string{"install", "--rbac", "least", "--rbac-namespaces", "a", "--features", "EnableCSI"},
			"grant them with --rbac-all-volumes"},
		"too much": {[]string{"install", "--velero-pod-cpu-limit", "1m"},
			"the cpu request 500m of the server is above its limit 1m"},
		"bad server flag": {[]string{"install", "--leader-elect-lease-duration", "1ms"}, "leader-elect-lease-duration"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := execute(t, tt.args...)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestPluginArgsAreTheServersFlags(t *testing.T) {
	t.Parallel()
	app := &command.App{Args: []string{"-n", "x", "server", "--features=EnableCSI", "--log-level", "debug"}}
	require.Equal(t, []string{"-n", "x", "--features=EnableCSI", "--log-level", "debug"}, pluginArgs(app))

	var f command.ClusterFlags
	require.NoError(t, f.Parse([]string{"--features=EnableCSI", "--kubeconfig", "/k", "--concurrent-backups", "3", "-n",
		"x"}))
	require.Equal(t, command.ClusterFlags{Kubeconfig: "/k", Namespace: "x"}, f)
}
