package pluginhost

import (
	"time"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
)

// Entry describes a plugin: one name of one kind at one version of one binary, or a file that has none.
type Entry struct {
	// Name is "domain/name"; empty for a file that could not be asked.
	Name string
	// Kind is the kind's name on the wire, version included: "BackupItemActionV2".
	Kind string
	// Version of the kind; 0 when the server does not know the kind or the version.
	Version int
	// Command is the path of the binary.
	Command string
	// BuiltIn is set if the plugin is part of the server.
	BuiltIn bool
	// Used is set if this is the version at which the server calls the plugin, if it has a reason to call it.
	Used bool
	// Choice says why the entry is used or not: "newest version that both know". Empty when it is quarantined.
	Choice string
	// Stock is the position that the entry would have, from 1, if Config.Order were empty.
	Stock int
	// Quarantined is the reason why the entry is not used; empty when nothing is wrong with it.
	Quarantined string
	// Refused is set if it is quarantined because an action of the file refuses its configuration.
	Refused *ConfigError
	// Note says what else is worth knowing, e.g. that the version is going to be removed; usually empty.
	Note string
	// PluginVersion and FrameworkVersion are what the process reports; empty when it does not.
	PluginVersion    string
	FrameworkVersion string
	// Concurrency is how many calls that work on items a run may make at once. A process with PluginInfo, as the framework
	// gives it, is made for several; for others, which may rely on what Velero's server does, it is 0 unless it is
	// configured.
	Concurrency int
	// ConfigSchema is the JSON Schema of the config that the plugin takes; nil when there is none.
	ConfigSchema []byte
	// OperationTimeout and StallTimeout are the limits that the author of an action declares for its operations; zero is
	// none.
	OperationTimeout time.Duration
	StallTimeout     time.Duration
	// Objects are the resources whose whole objects a manifest writer gets, "deployments.apps", or "*" for all.
	Objects []string
	// Roles are what the server knows of the plugin beyond its kind: what its author declares, or for a process without
	// PluginInfo those of Velero's plugin of that name.
	Roles []framework.Role
	// Process is the process that sessions share, as it is now.
	Process process.Process
	// Locations are those for which the plugin was opened, each with its process, sorted by name.
	Locations []Location
}

// Location is a location that a plugin serves.
type Location struct {
	Name    string          // as passed to Open
	Process process.Process // the zero value for a built-in in the server's process
}

// Usable reports whether the server could call the plugin at this version. It does so if the entry is Used.
func (e Entry) Usable() bool { return e.Quarantined == "" && e.Version > 0 }
