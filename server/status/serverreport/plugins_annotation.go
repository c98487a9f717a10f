package serverreport

import (
	"encoding/json"
	"fmt"
	"strings"
)

const (
	// Annotation is that of an answered ServerStatusRequest which has the report as JSON. Velero's clients keep it.
	PluginsAnnotation = "cleat.dev/plugins"

	// AnnotationDetails is that of a ServerStatusRequest which asks for the plugins that its value means only, with
	// their details; see Report.Matches.
	PluginDetailsAnnotation = "cleat.dev/plugin-details"

	// maxAnnotation is how much of the 256 KiB that an object's annotations may have is for a report, in bytes.
	maxAnnotation = 224 << 10

	// maxReason is how much of a reason is kept when the report is too long, in bytes.
	maxReason = 300
)

func cut(text string) string {
	if len(text) <= maxReason {
		return text
	}
	return strings.ToValidUTF8(text[:maxReason], "") + " ..."
}

// Decode reads what a server wrote into the annotation. What it does not know is passed over: the server may be newer.
func DecodePlugins(text string) (*PluginReport, error) {
	r := &PluginReport{}
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return nil, fmt.Errorf("annotation %s of the server's answer is no report of plugins: %w", PluginsAnnotation, err)
	}
	for i, p := range r.Plugins {
		if p.Status == "" {
			return nil, fmt.Errorf("annotation %s of the server's answer: plugins[%d] (%s %s) has no status", PluginsAnnotation, i, p.Kind, p.Name)
		}
	}
	return r, nil
}
