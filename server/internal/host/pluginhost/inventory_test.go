package pluginhost

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

func TestInventoryMetricHasStateOfEveryEntry(t *testing.T) {
	t.Parallel()
	dir := pluginDir(t, "exits")
	announced{lists: []string{bia, biaV2, biaV3, "bad", "bad"}, informs: []string{bia}, framework: "v9.0.0"}.write(t,
		dir+"/a", "")
	registry := prometheus.NewPedanticRegistry()
	h := newTestHost(t, dir, func(c *Config) { c.Metrics = registry })

	requireRows := func(rows ...string) {
		t.Helper()
		families, err := registry.Gather()
		require.NoError(t, err)
		var got []string
		for _, family := range families {
			if family.GetName() != "cleat_plugin_info" {
				continue
			}
			for _, metric := range family.GetMetric() {
				require.InDelta(t, 1, metric.GetGauge().GetValue(), 0)
				var labels []string
				for _, label := range metric.GetLabel() {
					labels = append(labels, label.GetName()+"="+strings.TrimPrefix(label.GetValue(), dir))
				}
				got = append(got, strings.Join(labels, " "))
			}
		}
		require.ElementsMatch(t, rows, got)
	}
	row := func(command, kind, plugin, framework, state, version string) string {
		return "command=" + command + " framework_version=" + framework + " kind=" + kind + " plugin=" + plugin +
			" plugin_version= state=" + state + " version=" + version
	}
	exits := row("/exits", "", "", "", "quarantined", "0")
	requireRows(
		row("/a", bia, "example.io/x", "v9.0.0", "left out", "1"),
		row("/a", biaV2, "example.io/x", "v9.0.0", "used", "2"),
		row("/a", biaV3, "example.io/x", "v9.0.0", "left out", "0"),
		row("/a", "bad", "example.io/x", "v9.0.0", "left out", "0"),
		row("/a", "bad", "example.io/x", "v9.0.0", "quarantined", "0"),
		exits,
	)

	announced{lists: []string{bia}}.write(t, dir+"/a", "")
	require.NoError(t, h.Rescan(t.Context()))
	requireRows(row("/a", bia, "example.io/x", "", "used", "1"), exits)
}
