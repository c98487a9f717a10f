package framework_test

import (
	"testing"

	"github.com/cleat-dev/cleat/server/test/programs"
)

// program returns the path of a plugin of testdata.
func program(t *testing.T, name string) string {
	t.Helper()
	return programs.Build(t, "framework/testdata/"+name)
}
