package install_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/test/site"
)

// TestAcceptInstall_HelpOfWorkers requires that the help of --item-block-worker-count names the limits of the calls
// that it does not limit.
func TestAcceptInstall_HelpOfWorkers(t *testing.T) {
	t.Parallel()
	s := site.New(t, "cleat.dev/file")
	help := s.Must("server", "--help")
	_, text, found := strings.Cut(help, "--item-block-worker-count")
	require.True(t, found)
	text, _, _ = strings.Cut(text, "\n")
	require.Contains(t, text, "it does not bound the calls of actions that take several")
	require.Contains(t, text, "plugins.concurrency does")
}
