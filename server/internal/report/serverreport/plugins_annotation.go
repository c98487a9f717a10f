package serverreport

import (
	"encoding/json"
	"fmt"
)

const (
	// PluginsAnnotation holds the report as JSON in an answered ServerStatusRequest. Velero's clients ignore it.
	PluginsAnnotation = "cleat.dev/plugins"

	// PluginDetailsAnnotation is set by the author of a ServerStatusRequest. The answer contains only the plugins that its
	// value refers to, with their details; see PluginReport.Matches.
	PluginDetailsAnnotation = "cleat.dev/plugin-details"

	// maxAnnotation is the maximum length of a report in bytes. All annotations of an object may have 256 KiB.
	maxAnnotation = 224 << 10

	// maxWithheld is the number of variables in a report that is too long.
	maxWithheld = 50

	// maxReason is the length in bytes to which reasons are cut in a report that is too long.
	maxReason = 300
)

// DecodePlugins parses the annotation. It ignores unknown fields, because the server may be newer.
func DecodePlugins(text string) (*PluginReport, error) {
	r := &PluginReport{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return nil, fmt.Errorf("annotation %s of the server's answer is not a report of plugins: %w", PluginsAnnotation, err)
	}
	for i, p := range r.Plugins {
		if p.Status == "" {
			return nil, fmt.Errorf("annotation %s of the server's answer: plugins[%d] (%s %s) has no status", PluginsAnnotation,
				i, p.Kind, p.Name)
		}
	}
	return r, nil
}
