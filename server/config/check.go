package config

import "fmt"

// Named is a plugin that the file names.
type Named struct {
	Key    string // of the policy, "backups.admission"
	Kind   string // "QueueAdmission"
	Policy Policy
}

// Named are the plugins that the file names as policies.
func (f *File) Named() []Named {
	var named []Named
	add := func(key, kind string, policy Policy) {
		if policy.Plugin != "" {
			named = append(named, Named{Key: key, Kind: kind, Policy: policy})
		}
	}
	add("backups.admission", "QueueAdmission", f.Backups.Admission)
	for i, writer := range f.Backups.ManifestWriters {
		add(fmt.Sprintf("backups.manifestWriters[%d]", i), "ManifestWriter", Policy(writer))
	}
	add("nodeAgent.soothing", "LoadSoothing", f.NodeAgent.Soothing)
	return named
}

// Check makes sure that the plugins that the file names are there and take the configuration that it has for them.
// find gives the schema that a plugin announces, nil when it has none; its error says why there is no such plugin of
// that kind that can be used. The error of Check has everything that is wrong, each with file, line and key. What
// could not be checked is a warning.
func (f *File) Check(find func(kind, name string) (schema []byte, err error)) (warnings []string, err error) {
	var found, unchecked problems
	for _, named := range f.Named() {
		schema, err := find(named.Kind, named.Policy.Plugin)
		if err != nil {
			found.add(f.at(named.Key+".plugin"), "%v", err)
			continue
		}
		object := named.Policy.Config
		if len(schema) == 0 && object.JSON != nil {
			unchecked.add(object.place, "is not checked: %s announces no JSON Schema for it", named.Policy.Plugin)
		}
		wrong, err := object.check(schema)
		if err != nil {
			unchecked.add(object.place, "is not checked: %v", err)
		}
		found = append(found, wrong...)
	}
	return unchecked.texts(), found.err()
}
