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
	for _, command := range []string{"backup ", "restore ", "schedule ", "queue ", "install ", "server ", "version "} {
		require.Contains(t, out, "  "+command)
	}
	require.NotContains(t, out, "run-plugins", "it is for the server")
	out, err = execute(t, "backup")
	require.NoError(t, err)
	for _, command := range []string{"create", "get", "describe", "logs", "delete"} {
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
		"unknown below":   {[]string{"plugin", "show"}, `unknown command "show" for "cleat plugin"; there are get, info, init, lock, order, test, verify`},
		"no name":         {[]string{"plugin", "info"}, "accepts 1 arg(s), received 0; usage: cleat plugin info NAME|FILE [flags]"},
		"unknown flag":    {[]string{"backup", "create", "--no-such"}, `unknown flag: --no-such; "cleat backup create --help" lists the flags`},
		"bad switch":      {[]string{"backup", "create", "x", "--snapshot-volumes=maybe"}, `"maybe": want true or false`},
		"two names":       {[]string{"backup", "create", "x", "y"}, "accepts at most 1 arg"},
		"no times":        {[]string{"schedule", "create", "x"}, `say when to back up: --schedule "0 3 * * *"`},
		"no source":       {[]string{"restore", "create", "x"}, "--from-backup or --from-schedule"},
		"bad mapping":     {[]string{"restore", "create", "--from-backup", "x", "--namespace-mappings", "a"}, "want KEY:VALUE"},
		"whole install":   {[]string{"install"}, "cleat install --crds-only"},
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
	require.NoError(t, f.Parse([]string{"--features=EnableCSI", "--kubeconfig", "/k", "--concurrent-backups", "3", "-n", "x"}))
	require.Equal(t, command.ClusterFlags{Kubeconfig: "/k", Namespace: "x"}, f)
}
