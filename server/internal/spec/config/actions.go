package config

import (
	"maps"
	"slices"

	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// Implementation is one implementation of a plugin that plugins.config names.
type Implementation struct {
	Kind   string  // of any version, "BackupItemAction"
	Schema []byte  // JSON Schema of its configuration; nil if it announces none
	Faults []Fault // with which it refuses the configuration of the file
}

// CheckActions verifies that the names in plugins.config belong to actions that accept their configuration. find
// returns the implementations of a name; its error has the reason if there are none. The error of CheckActions lists
// all mistakes, each with file, line and key. A configuration that could not be checked is a warning.
func (f *File) CheckActions(find func(name string) ([]Implementation, error)) (warnings []string, err error) {
	var found, unchecked problems
	for _, name := range slices.Sorted(maps.Keys(f.Plugins.Config)) {
		object := f.Plugins.Config[name]
		all, err := find(name)
		if err != nil {
			found.add(object.position, "%v", err)
			continue
		}
		configured := slices.DeleteFunc(slices.Clone(all), func(i Implementation) bool {
			return !isConfigured(i.Kind) || len(i.Schema) == 0
		})
		if len(configured) == 0 {
			found.add(object.position, "%s", misplaced(all))
		}
		for _, implementation := range configured {
			wrong, err := object.match(implementation.Schema, nil)
			if err != nil {
				unchecked.add(object.position, "is not checked: %v", err)
			}
			if len(wrong) == 0 {
				for _, fault := range implementation.Faults {
					wrong.add(object.locate(tokens(fault.Key)), "%s", fault.Message)
				}
			}
			if len(wrong) > 0 { // other versions would report the same
				found = append(found, wrong...)
				break
			}
		}
	}
	return unchecked.texts(), found.err()
}

// isConfigured reports whether the plugins of a kind are configured in plugins.config.
func isConfigured(kind string) bool {
	return slices.ContainsFunc(kinds.All(), func(v versioning.WireKind) bool { return v.Kind == kind && v.Configured })
}

// misplaced returns the message about a configuration that none of the implementations takes from plugins.config.
func misplaced(all []Implementation) string {
	where := map[string]string{
		kinds.QueueAdmission().Name:    "backups.admission.config",
		kinds.LoadSoothing().Name:      "nodeAgent.soothing.config",
		kinds.ManifestWriter().Name:    "backups.manifestWriters",
		kinds.ObjectStore().Name:       "the BackupStorageLocation",
		kinds.VolumeSnapshotter().Name: "the VolumeSnapshotLocation",
	}
	for _, implementation := range all {
		if right, known := where[implementation.Kind]; known &&
			!slices.ContainsFunc(all, func(i Implementation) bool { return isConfigured(i.Kind) }) {
			return "is a plugin of the kind " + implementation.Kind + ", whose configuration belongs in " + right
		}
	}
	return "no action of this name takes a configuration"
}
