package plugin

import (
	"strings"
	"testing"

	"github.com/cleat-dev/cleat/server/cli/clitest"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// executePlugin runs a command that needs no cluster.
func executePlugin(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return clitest.Execute(t, NewCommand, args...)
}

// addPlugin copies a program to path.
func addPlugin(t *testing.T, path, source string) {
	t.Helper()
	programs.Copy(t, source, path)
}

// plugin runs "cleat plugin" on a plugin directory. In the output, /plugins stands for the directory.
func plugin(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	out, err := executePlugin(t, append([]string{"plugin", args[0], "--plugin-dir", dir}, args[1:]...)...)
	return strings.ReplaceAll(out, dir, "/plugins"), err
}
