package framework_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	backupitemactionv1 "github.com/cleat-dev/cleat/proto/velero/backupitemaction/v1"
	"github.com/cleat-dev/cleat/server/test/velerohost"
)

// lines forwards each line that a logger writes.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// start starts a plugin as Velero does; configure adjusts what hosts configure differently.
func start(t *testing.T, binary string, args []string, configure func(*plugin.ClientConfig)) (*grpc.ClientConn, error) {
	t.Helper()
	config := velerohost.Config(exec.Command(binary, args...))
	config.Cmd.Env = []string{"TMPDIR=" + t.TempDir()} // a killed plugin leaves its socket there
	configure(config)
	return velerohost.Start(t, config)
}

func TestHandshakeLineMatchesVeleros(t *testing.T) {
	t.Parallel()
	process := exec.CommandContext(t.Context(), program(t, "plugin"), "--log-level=error")
	// The killed plugin leaves its socket behind, so the socket is in the test's directory.
	process.Env = append(os.Environ(), "VELERO_PLUGIN=hello", "PLUGIN_PROTOCOL_VERSIONS=2", "TMPDIR="+t.TempDir())
	stdout, err := process.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, process.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Regexp(t, `^1\|2\|unix\|/[^|]+\|grpc\|\n$`, line)
	require.NoError(t, process.Process.Kill())
	require.Error(t, process.Wait())
}

func TestPluginStartsUnderEveryHost(t *testing.T) {
	t.Parallel()
	binary := program(t, "plugin")
	for name, test := range map[string]struct {
		args      []string
		configure func(*plugin.ClientConfig)
		want      string
	}{
		"as Velero":     {args: nil, configure: func(*plugin.ClientConfig) {}},
		"with AutoMTLS": {configure: func(c *plugin.ClientConfig) { c.AutoMTLS = true }},
		"with any flag": {
			args: []string{
				"--features=EnableCSI", "--uploader-type=kopia", "--log-level=debug", "--invented-later", "x",
				"--default-volumes-to-fs-backup=true", "--log-format=json", "-v", "--",
			},
			configure: func(*plugin.ClientConfig) {},
		},
		"not with another version": {
			configure: func(c *plugin.ClientConfig) { c.ProtocolVersion = 3 },
			want:      "incompatible API version",
		},
		"not without the cookie": {
			configure: func(c *plugin.ClientConfig) { c.MagicCookieValue = "goodbye" },
			want:      "plugin",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := start(t, binary, test.args, test.configure)
			if test.want != "" {
				require.ErrorContains(t, err, test.want)
				return
			}
			require.NoError(t, err)
			require.NoError(t, execute(t, conn, "example.io/keep"))
		})
	}
}

func TestRequestMayExceedDefaultLimitOfGRPC(t *testing.T) {
	t.Parallel()
	conn, err := start(t, program(t, "plugin"), nil, func(*plugin.ClientConfig) {})
	require.NoError(t, err)
	item := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"` + strings.Repeat("x", 5<<20) +
		`"}}`
	answer, err := backupitemactionv1.NewBackupItemActionClient(conn).Execute(t.Context(),
		&backupitemactionv1.ExecuteRequest{
			Plugin: "example.io/keep", Item: []byte(item), Backup: []byte(`{}`),
		})
	require.NoError(t, err)
	require.Equal(t, item, string(answer.GetItem()), "an item that is not changed comes back byte for byte")
}

func TestProcessSurvivesErrorsAndPanics(t *testing.T) {
	t.Parallel()
	conn, err := start(t, program(t, "plugin"), nil, func(*plugin.ClientConfig) {})
	require.NoError(t, err)

	failed := status.Convert(execute(t, conn, "example.io/fail"))
	require.Equal(t, codes.Unknown, failed.Code())
	require.Equal(t, "stamp: no room for a", failed.Message())
	require.Equal(t, "main.fail", stackOf(failed)[0].GetFunction())

	panicked := status.Convert(execute(t, conn, "example.io/panic"))
	require.Equal(t, codes.Aborted, panicked.Code())
	require.Contains(t, panicked.Message(), "plugin panicked: runtime error: invalid memory address")
	require.Equal(t, "main.nilDereference", stackOf(panicked)[0].GetFunction())

	require.NoError(t, execute(t, conn, "example.io/print"), "what a plugin prints after the handshake does no harm")
	require.NoError(t, execute(t, conn, "example.io/keep"))
}

func TestLogLinesHaveLevelFieldsAndSource(t *testing.T) {
	t.Parallel()
	written := make(lines, 1000)
	host := hclog.New(&hclog.LoggerOptions{Output: written, JSONFormat: true, Level: hclog.Trace})
	conn, err := start(t, program(t, "plugin"), []string{"--log-level=debug"},
		func(c *plugin.ClientConfig) { c.Logger = host })
	require.NoError(t, err)
	require.NoError(t, execute(t, conn, "example.io/log"))
	require.Error(t, execute(t, conn, "example.io/fail"))

	// Lines of one process arrive in order, so the last one is the end.
	got := map[string]map[string]any{}
	for got["gives up"] == nil {
		var line map[string]any
		select {
		case text := <-written:
			require.NoError(t, json.Unmarshal([]byte(text), &line))
		case <-t.Context().Done():
			t.Fatal("the line did not arrive")
		}
		message, ok := line["@message"].(string)
		require.True(t, ok)
		got[message] = line
	}
	for message, level := range map[string]string{
		"a debug line": "debug", "an info line": "info", "a warning": "warn", "an error line": "error",
	} {
		line := got[message]
		require.NotNil(t, line, message)
		require.Equal(t, level, line["@level"])
		require.Equal(t, "plugin", line["@logSourceSetBy"])
		require.Regexp(t, `^plugin/actions\.go:\d+$`, line["logSource"])
		require.Equal(t, "example.io/log", line["plugin"])
		require.Equal(t, "a", line["item"])
	}
	require.Nil(t, got["a trace"], "--log-level=debug has no traces")
	require.EqualValues(t, 3, got["an info line"]["count"])
	require.Equal(t, "no room for a", got["gives up"]["error"])
	require.Equal(t, "main.fail", got["gives up"]["error.function"])
	require.Regexp(t, `^plugin/actions\.go:\d+$`, got["gives up"]["error.file"])
}

func TestInvalidRegistrationEndsProcessWithReason(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"mistaken": `register BackupItemAction "stamp": plugin name "stamp" must be "domain/name"`,
		"hello":    "This binary is a plugin",
	} {
		process := exec.CommandContext(t.Context(), program(t, name))
		process.Env = []string{} // started by hand
		output, err := process.CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, 1, exit.ExitCode())
		require.Contains(t, string(output), want)
	}
}
