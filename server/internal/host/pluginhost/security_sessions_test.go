//go:build linux

package pluginhost

import (
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAcceptSecurity_Sessions has a plugin start processes in its session and in sessions of their own, by a parent that
// lives or that has ended. They end with the plugin, and those of another plugin stay.
func TestAcceptSecurity_Sessions(t *testing.T) {
	t.Parallel()
	ends := map[string]func(t *testing.T, h *testHost, pid int){
		"it dies":       func(t *testing.T, _ *testHost, pid int) { require.NoError(t, syscall.Kill(pid, syscall.SIGKILL)) },
		"it is stopped": func(_ *testing.T, h *testHost, _ int) { h.Close() },
		"it exits": func(t *testing.T, h *testHost, _ int) {
			_, err := execute(t.Context(), h.behave(t), "exit")
			require.Error(t, err)
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newTestHost(t, pluginDir(t, "behave", "named-bystander"), nil)
			fork := func(plugin, how string) int {
				annotations, err := execute(t.Context(), h.action(t, plugin), how)
				require.NoError(t, err)
				child, err := strconv.Atoi(annotations["child"])
				require.NoError(t, err)
				t.Cleanup(func() { _ = syscall.Kill(child, syscall.SIGKILL) })
				require.False(t, dead(child))
				return child
			}
			other := fork("example.io/named-bystander", "fork a session away")
			var children []int
			for _, how := range []string{"fork", "fork away", "fork a session", "fork a session away"} {
				children = append(children, fork("example.io/behave", how))
			}
			pid := processOf(t, h.behave(t))
			end(t, h, pid)
			requireReaped(t, pid)
			for _, child := range children {
				require.Eventually(t, func() bool { return dead(child) }, longEnough, aMoment)
			}
			if name != "it is stopped" {
				require.False(t, dead(other), "that of another plugin stays")
			}
		})
	}
}
