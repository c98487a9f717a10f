package pluginhost

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/pluginhost/calls"
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

func TestBinaryWithARefusedConfigIsQuarantined(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, pluginDir(t, "behave", "zoned"), withConfig(`{"zone":"Mars/Base"}`))
	require.Equal(t, `BackupItemAction example.io/zoned refuses its configuration: zone: "Mars/Base" is not on Earth`, h.refused())
	h.behave(t)
	for _, entry := range h.Entries() {
		if entry.Quarantined != "" {
			require.Equal(t, "example.io/zoned", entry.Refused.Name)
			require.Equal(t, []versioning.ConfigFault{{Key: "zone", Message: `"Mars/Base" is not on Earth`}}, entry.Refused.Faults)
		}
	}
}
