package restic_test

import (
	"path/filepath"
	"testing"

	"github.com/cleat-dev/cleat/framework/conformance"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// TestAcceptVolumes_ResticConforms proves that the plugin as it is built keeps the rules of data movers. That the rules
// find the defects which they are for is proved in framework/conformance.
func TestAcceptVolumes_ResticConforms(t *testing.T) {
	program := filepath.Dir(programs.Restic(t))
	t.Parallel()
	root := directory(t).Config
	conformance.Test(t, conformance.Binary(programs.Build(t, "plugins/restic/cmd/cleat-restic")),
		conformance.WithConfig("", map[string]string{"path": root["path"], "bucket": root["bucket"]}),
		conformance.WithEnvironment("PATH="+program, "CLEAT_STATE_DIR="+t.TempDir()), conformance.WithLeakCalls(0))
}
