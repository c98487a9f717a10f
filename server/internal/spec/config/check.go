package config

import (
	"slices"
	"strconv"

	"github.com/cleat-dev/cleat/versioning/kinds"
)

// Named is a plugin that the file names.
type Named struct {
	Key    string // of the policy, "backups.admission"
	Kind   string // "QueueAdmission"
	Policy Policy

	path   []string // Key as keys and list indexes
	config *Object  // of the policy in the file
}

// Named returns the plugins that the file names as policies.
func (f *File) Named() []Named {
	var named []Named
	add := func(kind string, policy Policy, config *Object, path ...string) {
		if policy.Plugin != "" {
			named = append(named, Named{Key: f.root.locate(path).key, Kind: kind, Policy: policy, path: slices.Clip(path),
				config: config})
		}
	}
	add(kinds.QueueAdmission().Name, f.Backups.Admission, &f.Backups.Admission.Config, "backups", "admission")
	for i := range f.Backups.ManifestWriters {
		writer := &f.Backups.ManifestWriters[i]
		add(kinds.ManifestWriter().Name, Policy(*writer), &writer.Config, "backups", "manifestWriters", strconv.Itoa(i))
	}
	add(kinds.LoadSoothing().Name, f.NodeAgent.Soothing, &f.NodeAgent.Soothing.Config, "nodeAgent", "soothing")
	return named
}

// Check verifies that the plugins that the file names exist and accept their configuration. find returns the schema
// that a plugin announces, or nil if it announces none; its error has the reason why no plugin of that kind and name
// can be used. The error of Check lists all mistakes, each with file, line and key. A configuration that could not be
// checked is a warning.
func (f *File) Check(find func(kind, name string) (schema []byte, err error)) (warnings []string, err error) {
	var found, unchecked problems
	for _, named := range f.Named() {
		schema, err := find(named.Kind, named.Policy.Plugin)
		if err != nil {
			found.add(f.root.locate(append(named.path, "plugin")), "%v", err)
			continue
		}
		object := named.Policy.Config
		if len(schema) == 0 && object.JSON != nil {
			unchecked.add(object.position, "is not checked: %s announces no JSON Schema for it", named.Policy.Plugin)
		}
		wrong, err := object.match(schema, nil)
		if err != nil {
			unchecked.add(object.position, "is not checked: %v", err)
		}
		found = append(found, wrong...)
	}
	return unchecked.texts(), found.err()
}
