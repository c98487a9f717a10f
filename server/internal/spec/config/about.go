package config

import (
	"cmp"
	"encoding/json"
	"slices"
)

// Part is a part of the file that is about a plugin.
type Part struct {
	Key    string // "plugins.config.example.io/a"
	JSON   []byte
	Config bool // it is the configuration that the plugin gets, which its schema describes
}

// About returns what the file says about the plugin of a name: the configurations that it gets, and the limits for it.
func (f *File) About(name string) []Part {
	var parts []Part
	for _, named := range f.Named() {
		if named.Policy.Plugin == name {
			parts = append(parts, Part{named.Key + ".config", named.Policy.Config.Bytes(), true})
		}
	}
	if object, found := f.Plugins.Config[name]; found {
		parts = append(parts, Part{"plugins.config." + name, object.Bytes(), true})
	}
	if _, found := f.Operations.Plugins[name]; found {
		parts = append(parts, Part{"operations.plugins." + name, f.root.object("operations", "plugins", name).Bytes(), false})
	}
	if most, found := f.Plugins.Concurrency[name]; found {
		text, _ := json.Marshal(most) // a number always encodes
		parts = append(parts, Part{"plugins.concurrency." + name, text, false})
	}
	slices.SortStableFunc(parts, func(a, b Part) int { return cmp.Compare(a.Key, b.Key) })
	return parts
}
