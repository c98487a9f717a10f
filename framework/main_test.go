package framework_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// programs is a directory with the plugins of testdata, which the first test builds.
var programs struct {
	once sync.Once
	dir  string
	err  error
}

func buildPrograms() {
	if programs.dir, programs.err = os.MkdirTemp("", "framework-test-"); programs.err != nil {
		return
	}
	output, err := exec.Command("go", "build", "-o", programs.dir,
		"./testdata/plugin", "./testdata/hello", "./testdata/mistaken").CombinedOutput()
	if err != nil {
		programs.err = fmt.Errorf("%w: %s", err, output)
	}
}

// program returns the path of a plugin of testdata.
func program(t *testing.T, name string) string {
	t.Helper()
	programs.once.Do(buildPrograms)
	require.NoError(t, programs.err)
	return filepath.Join(programs.dir, name)
}

func TestMain(m *testing.M) {
	code := m.Run()
	if programs.dir != "" {
		_ = os.RemoveAll(programs.dir)
	}
	os.Exit(code)
}
