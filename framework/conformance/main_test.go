package conformance_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// programs is a directory with the plugins under test, which the first test that needs one builds.
var programs struct {
	once sync.Once
	dir  string
	err  error
}

func buildPrograms() {
	if programs.dir, programs.err = os.MkdirTemp("", "conformance-test-"); programs.err != nil {
		return
	}
	output, err := exec.Command("go", "build", "-o", programs.dir,
		"./testdata/defects", "../testdata/plugin", "../testdata/kinds", "../../examples/first-plugin").CombinedOutput()
	if err != nil {
		programs.err = fmt.Errorf("%w: %s", err, output)
	}
}

// program returns the path of a plugin.
func program(t *testing.T, name string) string {
	t.Helper()
	programs.once.Do(buildPrograms)
	require.NoError(t, programs.err)
	return filepath.Join(programs.dir, name)
}

// ownVariable is a variable in the environment of the tests that only its plugin knows. A server passes it on.
const ownVariable = "EXAMPLE_SETTING"

func TestMain(m *testing.M) {
	_ = os.Setenv(ownVariable, "x")
	code := m.Run()
	if programs.dir != "" {
		_ = os.RemoveAll(programs.dir)
	}
	os.Exit(code)
}
