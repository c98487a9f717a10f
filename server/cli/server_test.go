package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// check runs "cleat server --check" with a configuration file.
func check(t *testing.T, text string, args ...string) (out string, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cleat.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	var stdout, stderr bytes.Buffer
	args = append([]string{"server", "--check", "--config", file, "--kubeconfig", "/nowhere"}, args...)
	err = New(command.Streams{Out: &stdout, Err: &stderr}, "test", args).ExecuteContext(t.Context())
	return strings.ReplaceAll(stdout.String()+stderr.String(), filepath.Dir(file)+"/", ""), err
}

func TestCheckAcceptsExampleConfig(t *testing.T) {
	t.Parallel()
	example, err := os.ReadFile("../../examples/config/cleat.yaml")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "plugins.lock"), []byte("apiVersion: cleat.dev/v1\nplugins: []\n"),
		0o600))
	text := strings.NewReplacer("directory: /plugins", "directory: "+dir, "    example.io/stamp:\n      zone: UTC\n",
		"").Replace(string(example))
	out, err := check(t, text)
	require.NoError(t, err, out)
	require.Contains(t, out, "backups.admission: cleat.dev/namespace-overlap\nbackups.manifestWriters[0]: "+
		"cleat.dev/item-list\n"+
		"nodeAgent.soothing: cleat.dev/prepare-queue\nThe settings are valid.\n")
}

func TestCheckRefusesQuarantinedPlugin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	programs.Write(t, filepath.Join(dir, "office-hours"), []byte("#!/bin/sh\nexit 7\n"))
	_, err := check(t, "apiVersion: cleat.dev/v1\nbackups:\n  admission:\n    plugin: a.io/office-hours\n", "--plugin-dir",
		dir)
	require.ErrorContains(t, err,
		`cleat.yaml:4: backups.admission.plugin: unknown QueueAdmission "a.io/office-hours"; known are: cleat.dev/`)
	require.ErrorContains(t, err, "; quarantined: "+filepath.Join(dir, "office-hours")+" (")
	require.ErrorContains(t, err, "exit status 7")
}

func TestCheckRefusesMissingLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, err := check(t, "apiVersion: cleat.dev/v1\nplugins:\n  lock: required\n", "--plugin-dir", dir)
	require.ErrorContains(t, err, "cleat.yaml:3: plugins.lock: there is no lock "+filepath.Join(dir, "plugins.lock"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "plugins.lock"), []byte("plugins: 5\n"), 0o600))
	_, err = check(t, "apiVersion: cleat.dev/v1\n", "--plugin-dir", dir)
	require.ErrorContains(t, err, "plugins.lock:1: ", "a lock that is there counts")
}

func TestCheckRefusesWrongConfig(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text string
		args []string
		want []string
	}{
		"a key": {"backup: {}\n", nil, []string{"cleat.yaml:2: backup: unknown key; known are apiVersion, backups"}},
		"flag and file": {"plugins: {directory: /x}\n", []string{"--plugin-dir", "/y"},
			[]string{"cleat.yaml:2: plugins.directory: is set by the flag --plugin-dir as well"}},
		"flag and value": {"plugins: {directory: /x}\n", []string{"--plugin-dir", "/y", "--log-format=xml"},
			[]string{"plugins.directory: is set by", `--log-format "xml"`}},
		"an unknown plugin": {"backups: {admission: {plugin: a.io/none}}\n", nil, []string{
			`cleat.yaml:2: backups.admission.plugin: unknown QueueAdmission "a.io/none"; known are: cleat.dev/`,
		}},
		"config of an unknown plugin": {"plugins: {config: {a.io/none: {}}}\n", nil, []string{
			"cleat.yaml:2: plugins.config.a.io/none: no plugin of this name was found",
		}},
		"config of a policy": {"plugins: {config: {cleat.dev/fifo: {}}}\n", nil, []string{
			"cleat.yaml:2: plugins.config.cleat.dev/fifo: is a plugin of the kind QueueAdmission, whose configuration belongs " +
				"in backups.admission.config",
		}},
		"another kind": {"backups: {admission: {plugin: cleat.dev/prepare-queue}}\n", nil, []string{
			`cleat.yaml:2: backups.admission.plugin: "cleat.dev/prepare-queue" is not a QueueAdmission but a plugin of the kind LoadSoothing`,
		}},
		"config for it": {"nodeAgent:\n  soothing:\n    plugin: cleat.dev/prepare-queue\n    config:\n      load: 5\n", nil,
			[]string{
				"cleat.yaml:6: nodeAgent.soothing.config.load: unknown key; known are loads",
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := check(t, "apiVersion: cleat.dev/v1\n"+test.text, test.args...)
			for _, want := range test.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

// TestCheckRefusesServerWithoutPlugins disables built-in plugins that no other one replaces.
func TestCheckRefusesServerWithoutPlugins(t *testing.T) {
	t.Parallel()
	_, err := check(t, "apiVersion: cleat.dev/v1\nplugins: {disabledBuiltIns: [\"*\"]}\n")
	for _, want := range []string{
		`backups.admission: unknown QueueAdmission "cleat.dev/namespace-overlap"`, `nodeAgent.soothing: unknown LoadSoothing`,
		"backups.manifestWriters: unknown ManifestWriter", "leave the built-in one out of plugins.disabledBuiltIns",
		"no ObjectStore is left",
	} {
		require.ErrorContains(t, err, want)
	}
	const one = "plugins: {disabledBuiltIns: [cleat.dev/namespace-overlap]}\n"
	_, err = check(t, "apiVersion: cleat.dev/v1\n"+one)
	require.ErrorContains(t, err, "backups.admission: ")
	require.NotContains(t, err.Error(), "nodeAgent.soothing")
	out, err := check(t, "apiVersion: cleat.dev/v1\n"+
		"backups: {admission: {plugin: cleat.dev/fifo}, manifestWriters: []}\n"+one)
	require.NoError(t, err, out)
}

// TestKlogsFlagsDoNotStopTheStart: manifests of Velero may have them.
func TestKlogsFlagsDoNotStopTheStart(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"-v", "4"}, {"-v=4"}, {"--v=4"}, {"--vmodule=reflector=4"}, {"--logtostderr"}, {"--logtostderr=true"},
		{"--alsologtostderr"},
		{"--stderrthreshold=2"}, {"--colorized"}, {"--colorized=false"}, {"--add_dir_header", "--log_dir", "/tmp"},
	} {
		out, err := check(t, "apiVersion: cleat.dev/v1\n", args...)
		require.NoError(t, err, args)
		require.Contains(t, out, "The settings are valid.", args)
	}
	_, err := check(t, "apiVersion: cleat.dev/v1\n", "-v", "loud")
	require.ErrorContains(t, err, "loud")
}
