package conformance_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/test/programs"
)

// program returns the path of a plugin under test.
func program(t *testing.T, name string) string {
	t.Helper()
	pkg := map[string]string{
		"defects": "framework/conformance/testdata/defects", "plugin": "framework/testdata/plugin",
		"kinds":        "framework/testdata/kinds",
		"first-plugin": "examples/first-plugin",
	}[name]
	require.NotEmpty(t, pkg, name)
	return programs.Build(t, pkg)
}

// ownVariable is a variable in the environment of the tests that only its plugin knows. A server passes it on.
const ownVariable = "EXAMPLE_SETTING"

func TestMain(m *testing.M) {
	_ = os.Setenv(ownVariable, "x")
	os.Exit(m.Run())
}
