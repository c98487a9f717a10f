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
	// Choice is the reason why the entry is used or not: "newest version that both know". Empty when it is quarantined.
	Choice string
	// Stock is the position that the entry would have, from 1, if Config.Order were empty.
	Stock int
	// Quarantined is the reason why the entry is not used; empty when nothing is wrong with it.
	Quarantined string
	// Refused is set if it is quarantined because an action of the file refuses its configuration.
	Refused *ConfigError
	// Note has further information, for example that the version is going to be removed; usually empty.
	Note string
	// PluginVersion and FrameworkVersion are reported by the process; empty if it does not report them.
	PluginVersion    string
	FrameworkVersion string
	// Concurrency is how many calls that work on items a run may make at once. A process with PluginInfo, which the
	// framework provides, takes several. For other processes, which may rely on the behavior of Velero's server, it is 0
	// unless it is configured.
	Concurrency int
	// ConfigSchema is the JSON Schema of the config that the plugin takes; nil when there is none.
	ConfigSchema []byte
	// OperationTimeout and StallTimeout are the limits that the author of an action declares for its operations; zero
	// means no limit.
	OperationTimeout time.Duration
	StallTimeout     time.Duration
	// Objects are the resources whose whole objects a manifest writer gets, "deployments.apps", or "*" for all.
	Objects []string
	// Roles are the roles that the author declares or, for a process without PluginInfo, the roles of Velero's plugin of
	// that name.
	Roles []framework.Role
	// Calls are the calls of the plugin since the server started, of whatever version of the kind, and Errors those that
	// have failed. Both are 0 in a host without metrics.
	Calls, Errors int64
	// Process is the process that sessions share, as it is now, with the restarts of all processes of the binary.
	Process process.Process
	// Locations are the locations for which the plugin was opened, each with its process, sorted by name.
	Locations []Location
}

// Location is a location that a plugin serves.
type Location struct {
	Name    string          // as passed to Open
	Process process.Process // the zero value for a built-in in the server's process
}

// Usable reports whether the server could call the plugin at this version. It does so if the entry is Used.
func (e Entry) Usable() bool { return e.Quarantined == "" && e.Version > 0 }
