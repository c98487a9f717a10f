package pluginhost

import (
	"context"
	"path"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
	"github.com/cleat-dev/cleat/versioning"
)

// withConfig returns a change of the settings that sets the configuration of example.io/zoned.
func withConfig(config string) func(*Config) {
	return func(c *Config) { c.Configs = map[string][]byte{"example.io/zoned": []byte(config)} }
}

func TestActionIsConfiguredAfterEachStart(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "behave", "zoned"), withConfig(`{"zone":"UTC"}`))
	action := h.action(t, "example.io/zoned")
	zone := func() string {
		annotations, err := execute(t.Context(), action, "zone")
		require.NoError(t, err)
		return annotations["zone"]
	}
	require.Equal(t, "UTC", zone())
	_, err := execute(t.Context(), action, "killed")
	require.ErrorAs(t, err, new(*calls.DiedError))
	require.Equal(t, "UTC", zone())
}

// countingConn counts the calls of each method.
type countingConn struct {
	grpc.ClientConnInterface
	calls map[string]int
}

func (c countingConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	c.calls[path.Base(method)]++
	return c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

func TestBinaryIsAskedOnceWhatItOffers(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "zoned"), withConfig(`{"zone":"UTC"}`))
	from := h.history.now().sources[0]
	conn := countingConn{from.process, map[string]int{}}
	for range 3 { // as after three starts of a process
		require.NoError(t, from.launch.OnStart(t.Context(), conn))
	}
	require.Equal(t, map[string]int{"ValidateConfig": 3, "Configure": 3}, conn.calls,
		"the scanner has asked what it offers")
}

func TestBinaryWithARefusedConfigIsQuarantined(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "behave", "zoned"), withConfig(`{"zone":"Mars/Base"}`))
	require.Equal(t, `BackupItemAction example.io/zoned refuses its configuration: zone: "Mars/Base" is not on Earth`,
		h.refused())
	h.behave(t)
	for _, entry := range h.Entries() {
		if entry.Quarantined != "" {
			require.Equal(t, "example.io/zoned", entry.Refused.Name)
			require.Equal(t, []versioning.ConfigFault{{Key: "zone", Message: `"Mars/Base" is not on Earth`}},
				entry.Refused.Faults)
		}
	}
}
