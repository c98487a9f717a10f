package operations_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptOperations_ProgressBar reads the bar of a backup that waits for operations from a terminal.
func TestAcceptOperations_ProgressBar(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/s3")
	w := s.Work()
	s.Serve(w.Args...)
	s.Available()
	shop := s.Workload(1)
	s.Item(shop, "long", "keyed", "length", "10h")
	s.Item(shop, "short", "keyed")
	ended := s.Draws(`backup nightly: WaitingForPluginOperations, 100\d B of 2.0 KiB[^\r]*\(1/2\)`,
		"backup", "create", "nightly", "--include-namespaces", shop, "--wait")
	s.Must("backup", "cancel", "nightly")
	out, err := ended()
	require.Error(t, err, "it is not Completed")
	require.Equal(t, "Backup request \"nightly\" submitted successfully.\n", out)
}
