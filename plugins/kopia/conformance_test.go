package kopia_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/conformance"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// TestAcceptVolumes_KopiaConforms proves that the plugin as it is built keeps the rules of data movers. That the rules
// find the defects which they are for is proved in framework/conformance.
func TestAcceptVolumes_KopiaConforms(t *testing.T) {
	t.Parallel()
	binary, err := programs.BuildModule("plugins/kopia/cmd/cleat-kopia")
	require.NoError(t, err)
	root := directory(t).Config
	conformance.Test(t, conformance.Binary(binary),
		conformance.WithConfig("", map[string]string{"path": root["path"], "bucket": root["bucket"]}),
		conformance.WithEnvironment("CLEAT_STATE_DIR="+t.TempDir()), conformance.WithLeakCalls(0))
}
