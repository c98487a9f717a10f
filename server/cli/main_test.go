package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// programs are the plugins of these tests, each built once.
var programs = struct {
	sync.Mutex
	dir   string
	built map[string]error
}{built: map[string]error{}}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "cli-test-*")
	if err != nil {
		panic(err)
	}
	programs.dir = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// program is the path of a plugin, which is named by where its source is.
func program(t *testing.T, source string) string {
	t.Helper()
	path := filepath.Join(programs.dir, filepath.Base(source))
	programs.Lock()
	defer programs.Unlock()
	err, done := programs.built[source]
	if !done {
		var out []byte
		if out, err = exec.Command("go", "build", "-o", path, source).CombinedOutput(); err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		programs.built[source] = err
	}
	require.NoError(t, err)
	return path
}

// The plugins of these tests.
const (
	kindsPlugin     = "../../framework/testdata/kinds"   // one of each kind
	firstPlugin     = "../../examples/first-plugin"      // a good one
	misbehavePlugin = "../pluginhost/testdata/misbehave" // what it does is said by its name
)

// pluginDir is a plugin directory, with the source of each file.
func pluginDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := os.MkdirTemp(programs.dir, "plugins-*")
	require.NoError(t, err)
	for name, source := range files {
		addPlugin(t, filepath.Join(dir, name), source)
	}
	return dir
}

func addPlugin(t *testing.T, path, source string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.Link(program(t, source), path))
}

// writeProgram writes a file that can be started at once: no process that is forked meanwhile keeps it open for writing.
func writeProgram(t *testing.T, path string, content []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(path, content, 0o755)) //nolint:gosec // it is a program
}

// plugin executes "plugin" with the directory; what it prints has /plugins in the place of the directory.
func plugin(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	out, err := execute(t, append([]string{"plugin", args[0], "--plugin-dir", dir}, args[1:]...)...)
	return strings.ReplaceAll(out, dir, "/plugins"), err
}
