package pluginhost

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// inventory is the metric that lists the plugins and the result of their negotiation, with one series for each entry.
type inventory struct {
	entries func() []Entry
	row     *prometheus.Desc
}

func newInventory(entries func() []Entry) inventory {
	return inventory{entries: entries, row: prometheus.NewDesc("cleat_plugin_info",
		"A plugin at one version of its kind, or a file that could not be asked. The state is used, left out or "+
			"quarantined. Always 1.",
		[]string{"plugin", "kind", "version", "command", "state", "plugin_version", "framework_version"}, nil)}
}

// Describe implements prometheus.Collector.
func (i inventory) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- i.row }

// Collect implements prometheus.Collector.
func (i inventory) Collect(metrics chan<- prometheus.Metric) {
	type labels [7]string
	seen := map[labels]bool{}
	for _, e := range i.entries() {
		state := "left out"
		switch {
		case e.Quarantined != "":
			state = "quarantined"
		case e.Used:
			state = "used"
		}
		of := labels{e.Name, e.Kind, strconv.Itoa(e.Version), e.Command, state, e.PluginVersion, e.FrameworkVersion}
		if seen[of] { // a plugin may list the same twice
			continue
		}
		seen[of] = true
		metrics <- prometheus.MustNewConstMetric(i.row, prometheus.GaugeValue, 1, of[:]...)
	}
}
