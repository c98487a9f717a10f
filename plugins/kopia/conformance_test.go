package kopia_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/conformance"
)

// TestAcceptVolumes_KopiaConforms proves that the plugin as it is built keeps the rules of data movers. That the rules
// find the defects which they are for is proved in framework/conformance.
func TestAcceptVolumes_KopiaConforms(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "cleat-kopia")
	output, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s", "-o", binary,
		"./cmd/cleat-kopia").CombinedOutput()
	require.NoError(t, err, "%s", output)
	root := directory(t).Config
	conformance.Test(t, conformance.Binary(binary),
		conformance.WithConfig("", map[string]string{"path": root["path"], "bucket": root["bucket"]}),
		conformance.WithEnvironment("CLEAT_STATE_DIR="+t.TempDir()), conformance.WithLeakCalls(0))
}
