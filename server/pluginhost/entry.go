package pluginhost

import "github.com/cleat-dev/cleat/server/pluginhost/process"

// Entry is a plugin as it is shown: one name of one kind at one version of one binary, or a file that has none.
type Entry struct {
	// Name is "domain/name"; empty for a file that could not be asked.
	Name string
	// Kind is the kind's name on the wire, version included: "BackupItemActionV2".
	Kind string
	// Version of the kind; 0 when the server does not know the kind or the version.
	Version int
	// Command is the path of the binary.
	Command string
	// BuiltIn tells that the plugin is part of the server.
	BuiltIn bool
	// Used tells that the server calls the plugin at this version.
	Used bool
	// Choice says why the entry is used or not: "newest version that both know". Empty when it is quarantined.
	Choice string
	// Stock is the entry's place, from 1, if Config.Order were empty.
	Stock int
	// Quarantined is the reason why the entry is not used; empty when nothing is wrong with it.
	Quarantined string
	// Note says what else is worth knowing, e.g. that the version is going to be removed; usually empty.
	Note string
	// PluginVersion and FrameworkVersion are what the process tells of itself; empty when it does not.
	PluginVersion    string
	FrameworkVersion string
	// ConfigSchema is the JSON Schema of the config that the plugin takes; nil when it tells of none.
	ConfigSchema []byte
	// Process is the one that sessions share, as it is now.
	Process process.Process
}

// Usable tells whether the server could call the plugin at this version. It does so if it is Used.
func (e Entry) Usable() bool { return e.Quarantined == "" && e.Version > 0 }
