package serverreport

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
)

// Encode is the report as the annotation has it. One that is too long has its reasons cut, and then its last plugins
// left out, which Omitted counts.
func (r *PluginReport) Encode() (string, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("write the report of plugins as JSON: %w", err)
	}
	if len(data) <= maxAnnotation {
		return string(data), nil
	}
	short := *r
	short.Plugins = make([]Plugin, 0, len(r.Plugins))
	room := maxAnnotation - 4<<10 // for what is around the plugins
	for i, p := range r.Plugins {
		p.Reason, p.Note = cut(p.Reason), cut(p.Note)
		one, err := json.Marshal(p)
		if err != nil {
			return "", fmt.Errorf("write the report of plugins as JSON: %w", err)
		}
		if room -= len(one) + 1; room < 0 {
			short.Omitted = len(r.Plugins) - i
			break
		}
		short.Plugins = append(short.Plugins, p)
	}
	if data, err = json.Marshal(&short); err != nil {
		return "", fmt.Errorf("write the report of plugins as JSON: %w", err)
	}
	return string(data), nil
}

// Report is what a host has. Fields that a reader does not know yet are no error.
type PluginReport struct {
	// Directory is the plugin directory, absolute; empty when there is none.
	Directory string `json:"directory,omitempty"`
	// Lock is the path of the lock that holds; empty without one.
	Lock string `json:"lock,omitempty"`
	// Order is the configured order of the actions, as in the file that --config names; empty for the stock order.
	Order []string `json:"order,omitempty"`
	// Plugins come in the order in which they run.
	Plugins []Plugin `json:"plugins"`
	// Omitted is how many plugins more there are, which did not fit into an answer.
	Omitted int `json:"omitted,omitempty"`
}

// Matches tells whether a plugin is meant by what somebody wrote: its name, where "aws" is "velero.io/aws" as in
// Velero, or its file, also relative to the plugin directory. An empty text means all.
func (r *PluginReport) Matches(p *Plugin, text string) bool {
	if text == "" || p.Name == text || p.Name == "velero.io/"+text {
		return true
	}
	return p.File != "" && (p.File == text || r.Directory != "" && p.File == filepath.Join(r.Directory, text))
}

// Only is the report without the plugins that text does not mean; an empty text means all.
func (r *PluginReport) Only(text string) *PluginReport {
	kept := *r
	kept.Plugins = nil
	for i := range r.Plugins {
		if r.Matches(&r.Plugins[i], text) {
			kept.Plugins = append(kept.Plugins, r.Plugins[i])
		}
	}
	return &kept
}

// Names are those of the plugins, each once, in their order.
func (r *PluginReport) Names() []string {
	var names []string
	seen := map[string]bool{"": true}
	for _, p := range r.Plugins {
		if !seen[p.Name] {
			seen[p.Name] = true
			names = append(names, p.Name)
		}
	}
	return names
}

// Relative is the path of a file below the plugin directory, with slashes, as a lock has it; false when it is elsewhere.
func (r *PluginReport) Relative(file string) (string, bool) {
	if r.Directory == "" {
		return "", false
	}
	relative, err := filepath.Rel(r.Directory, file)
	if err != nil || relative == "." || strings.HasPrefix(relative, "..") {
		return "", false
	}
	return filepath.ToSlash(relative), true
}

// Status is what becomes of a plugin.
type PluginStatus string

// What Status can be.
const (
	InUse       PluginStatus = "InUse"       // the server calls it
	NotUsed     PluginStatus = "NotUsed"     // nothing is wrong with it, but another is called, or the server does not know it
	Quarantined PluginStatus = "Quarantined" // something is wrong with it
	Unknown     PluginStatus = "Unknown"     // the server does not say, as Velero's does not
)

// Plugin is one name of one kind at one version in one file, or a file that has none.
type Plugin struct {
	Name    string       `json:"name,omitempty"`    // "example.io/mover"; empty for a file that could not be asked
	Kind    string       `json:"kind,omitempty"`    // "BackupItemAction", whatever the version
	Version int          `json:"version,omitempty"` // of the kind, as the plugin says it: the server may not know it
	Status  PluginStatus `json:"status"`
	Reason  string       `json:"reason,omitempty"` // why it has this status
	Note    string       `json:"note,omitempty"`   // what else is worth knowing
	File    string       `json:"file,omitempty"`   // absolute; the server's own for built-ins
	BuiltIn bool         `json:"builtIn,omitempty"`
	Stock   int          `json:"stockPlace,omitempty"` // its place among all of the report if no order were configured, from 1

	PluginVersion    string   `json:"pluginVersion,omitempty"`
	FrameworkVersion string   `json:"frameworkVersion,omitempty"`
	Process          *Process `json:"process,omitempty"` // nil when none runs

	*Details
}

// Process is the running process that the plugin is in.
type Process struct {
	PID           int   `json:"pid"`
	Restarts      int   `json:"restarts"` // since the server started
	ResidentBytes int64 `json:"residentBytes"`
}

// Details are what is only asked for on demand; see Detailer.
type Details struct {
	SHA256       string          `json:"sha256,omitempty"` // of the file that runs; empty for built-ins
	Locked       bool            `json:"locked"`           // the lock has the file with this sum
	ConfigSchema json.RawMessage `json:"configSchema,omitempty"`
	AppliesTo    *Selector       `json:"appliesTo,omitempty"` // of actions in use
	Problem      string          `json:"problem,omitempty"`   // why something is not known
}

// Selector is which items an action wants, as framework.ResourceSelector.
type Selector struct {
	IncludedNamespaces []string `json:"includedNamespaces,omitempty"`
	ExcludedNamespaces []string `json:"excludedNamespaces,omitempty"`
	IncludedResources  []string `json:"includedResources,omitempty"`
	ExcludedResources  []string `json:"excludedResources,omitempty"`
	LabelSelector      string   `json:"labelSelector,omitempty"`
}
