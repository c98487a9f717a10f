package documents_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/hostenv"
)

// root is the root of the repository.
const root = "../../.."

func readProtocol(t *testing.T) string {
	t.Helper()
	document, err := os.ReadFile(filepath.Join(root, "framework", "PROTOCOL.md"))
	require.NoError(t, err)
	return string(document)
}

func TestProtocLineGeneratesCode(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("protoc"); err != nil {
		t.Skip("protoc is not installed")
	}
	_, rest, found := strings.Cut(readProtocol(t), "\n    protoc ")
	require.True(t, found)
	line, _, _ := strings.Cut(rest, "\n")
	out := t.TempDir()
	command := exec.CommandContext(t.Context(), "sh", "-c", "protoc "+line)
	command.Dir = filepath.Join(root, "proto")
	command.Env = append(os.Environ(), "OUT="+out)
	output, err := command.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.FileExists(t, filepath.Join(out, "velero", "backupitemaction", "v2", "backupitemaction_pb2.py"))
	require.FileExists(t, filepath.Join(out, "cleat", "plugininfo", "v1", "plugininfo_pb2.py"))
}

func TestEnvironmentTableMatchesTheServer(t *testing.T) {
	t.Parallel()
	_, rest, found := strings.Cut(readProtocol(t), "\n## Environment\n")
	require.True(t, found)
	section, _, _ := strings.Cut(rest, "\n## ")
	var names []string
	for line := range strings.Lines(section) {
		cell, _, isRow := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		if !isRow || !strings.HasPrefix(line, "| `") {
			continue
		}
		for i, part := range strings.Split(cell, "`") {
			if i%2 == 1 && part != "VELERO_PLUGIN" && part != "PLUGIN_*" { // the server sets these itself
				names = append(names, strings.Replace(part, "*", "X", 1))
			}
		}
	}
	require.Greater(t, len(names), 30)
	for _, name := range names {
		passed, _ := hostenv.Strict.Environ([]string{name + "=1"})
		require.Equal(t, []string{name + "=1"}, passed, "the table says that a plugin gets %s", name)
	}
}
