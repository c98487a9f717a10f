// Package clitest runs commands in tests that need no cluster. A test gives it the command of its own package, so it
// imports no package with commands.
package clitest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// Version is the version of the program in the tests.
const Version = "v1.2.3"

// Execute runs "cleat" with the arguments and returns all that it prints. newCommand makes the one command below it.
func Execute(t *testing.T, newCommand func(*command.App) *cobra.Command, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	app := &command.App{Streams: command.Streams{Out: &out, Err: &out}, Version: Version, Args: args}
	err := command.NewRoot(app, newCommand(app)).ExecuteContext(t.Context())
	return out.String(), err
}

// Directories of the plugins that tests run, for programs.Build.
const (
	KindsPlugin     = "framework/testdata/kinds"                           // one of each kind
	FirstPlugin     = "examples/first-plugin"                              // a good one
	MisbehavePlugin = "server/internal/host/pluginhost/testdata/misbehave" // its file name selects its behavior
	PolicyPlugin    = "server/internal/control/policy/testdata/policy"     // a configurable policy
	BrokenPlugin    = "framework/testdata/plugin"                          // one of its actions panics
)

// PluginDir returns a plugin directory with the given files, each a copy of the program in a directory of this module.
func PluginDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "plugins-*")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for name, pkg := range files {
		programs.Copy(t, pkg, filepath.Join(dir, name))
	}
	return dir
}
