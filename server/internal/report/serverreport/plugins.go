package serverreport

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

// Encode returns the report as JSON for the annotation. If it is too long, the reasons are cut; then the last plugins
// are left out and counted in Omitted.
func (r *PluginReport) Encode() (string, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("write the report of plugins as JSON: %w", err)
	}
	if len(data) <= maxAnnotation {
		return string(data), nil
	}
	short := *r
	short.Withheld = r.Withheld[:min(len(r.Withheld), maxWithheld)]
	short.Plugins = make([]Plugin, 0, len(r.Plugins))
	room := maxAnnotation - 4<<10 // for everything around the plugins
	for i, p := range r.Plugins {
		p.Reason, p.Note = shorten.Text(p.Reason, maxReason), shorten.Text(p.Note, maxReason)
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

// PluginReport lists the plugins of a host. Readers ignore unknown fields.
type PluginReport struct {
	// Directory is the plugin directory, absolute; empty when there is none.
	Directory string `json:"directory,omitempty"`
	// Lock is the path of the lock in force; empty without a lock.
	Lock string `json:"lock,omitempty"`
	// Order is the order of the actions in the configuration file; empty for the default order.
	Order []string `json:"order,omitempty"`
	// Environment is the rule by which plugins get the server's environment, "Complete" or "Strict". Withheld are the
	// names of the variables that they do not get. Both are in reports with details only.
	Environment string   `json:"environment,omitempty"`
	Withheld    []string `json:"withheldVariables,omitempty"`
	// Plugins are in the order in which they run.
	Plugins []Plugin `json:"plugins"`
	// Omitted is the number of further plugins that did not fit into an answer.
	Omitted int `json:"omitted,omitempty"`
}

// Matches reports whether text refers to a plugin: by its name, where "aws" stands for "velero.io/aws" as in Velero, or
// by its file, which may be relative to the plugin directory. An empty text refers to all plugins.
func (r *PluginReport) Matches(p *Plugin, text string) bool {
	if text == "" || p.Name == text || p.Name == "velero.io/"+text {
		return true
	}
	return p.File != "" && (p.File == text || r.Directory != "" && p.File == filepath.Join(r.Directory, text))
}

// Only returns the report with the plugins that text refers to.
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

// Names returns the names of the plugins, each once, in their order.
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

// Relative returns the path of a file relative to the plugin directory, with slashes, as in a lock. It returns false
// for a file elsewhere.
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

// PluginStatus is the state of a plugin in a server.
type PluginStatus string

// The values of PluginStatus.
const (
	InUse       PluginStatus = "InUse"       // the server calls it
	Available   PluginStatus = "Available"   // the server would call it, but no configuration uses it
	NotUsed     PluginStatus = "NotUsed"     // it is valid, but another one is called, or the server does not support it
	Quarantined PluginStatus = "Quarantined" // something is wrong with it
	Unknown     PluginStatus = "Unknown"     // the server does not report it, as Velero's does not
)

// Plugin is a name of one kind at one version in one file, or a file without plugins.
type Plugin struct {
	Name    string       `json:"name,omitempty"`    // "example.io/mover"; empty for a file that could not be asked
	Kind    string       `json:"kind,omitempty"`    // "BackupItemAction", for every version
	Version int          `json:"version,omitempty"` // of the kind, as the plugin reports it: the server may not support it
	Status  PluginStatus `json:"status"`
	Reason  string       `json:"reason,omitempty"` // why it has this status
	Note    string       `json:"note,omitempty"`   // further information
	File    string       `json:"file,omitempty"`   // absolute; the server's own for built-ins
	BuiltIn bool         `json:"builtIn,omitempty"`
	Stock   int          `json:"stockPlace,omitempty"` // its position in the report without a configured order, from 1

	PluginVersion    string `json:"pluginVersion,omitempty"`
	FrameworkVersion string `json:"frameworkVersion,omitempty"`
	// Calls are the calls since the server started, of the version in use, and Errors those that have failed.
	Calls   int64    `json:"calls,omitempty"`
	Errors  int64    `json:"errors,omitempty"`
	Process *Process `json:"process,omitempty"` // that all runs share; nil when none runs
	// Locations are the locations that the plugin, such as a store, serves, each in a process of its own.
	Locations []Location `json:"locations,omitempty"`

	*Details
}

// Callable reports whether the server calls the plugin, or would call it.
func (p *Plugin) Callable() bool { return p.Status == InUse || p.Status == Available }

// Location is a location that a plugin serves.
type Location struct {
	Name    string   `json:"name"`
	Process *Process `json:"process,omitempty"` // nil when none runs, or for a built-in in the server's own
}

// Processes returns the running processes of a plugin: the process that all runs share, and the processes of its
// locations.
func (p *Plugin) Processes() []Process {
	var all []Process
	if p.Process != nil {
		all = append(all, *p.Process)
	}
	for _, location := range p.Locations {
		if location.Process != nil {
			all = append(all, *location.Process)
		}
	}
	return all
}

// Process is the running process of a plugin.
type Process struct {
	PID           int   `json:"pid"`
	Restarts      int   `json:"restarts"` // since the server started
	ResidentBytes int64 `json:"residentBytes"`
}

// Details are the parts of a report that are made on demand only.
type Details struct {
	SHA256       string          `json:"sha256,omitempty"` // of the file that runs; empty for built-ins
	Locked       bool            `json:"locked"`           // the lock contains the file with this sum
	ConfigSchema json.RawMessage `json:"configSchema,omitempty"`
	AppliesTo    *Selector       `json:"appliesTo,omitempty"` // of actions in use or available
	// OperationTimeout and StallTimeout are the limits that the author of an action declares for its operations, in Go's
	// form of durations: "4h0m0s".
	OperationTimeout string `json:"operationTimeout,omitempty"`
	StallTimeout     string `json:"stallTimeout,omitempty"`
	// Roles are the roles of the plugin, spelled like the constants of framework.Role.
	Roles   []string `json:"roles,omitempty"`
	Problem string   `json:"problem,omitempty"` // why some details are missing
}

// Selector selects the items of an action, as framework.ResourceSelector does.
type Selector struct {
	IncludedNamespaces []string `json:"includedNamespaces,omitempty"`
	ExcludedNamespaces []string `json:"excludedNamespaces,omitempty"`
	IncludedResources  []string `json:"includedResources,omitempty"`
	ExcludedResources  []string `json:"excludedResources,omitempty"`
	LabelSelector      string   `json:"labelSelector,omitempty"`
}
