package pluginlock

import (
	"bytes"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/cleat-dev/cleat/server/internal/kube/wholefile"
)

const head = `# The plugin binaries that a server may run. "cleat plugin lock" writes this file, "cleat plugin verify" checks it.
`

// mode is the mode of the file: its content is not a secret, and others must not change it.
const mode = 0o644

// MarshalYAML writes p in one line.
func (p Provided) MarshalYAML() (any, error) {
	type plain Provided
	var node yaml.Node
	if err := node.Encode(plain(p)); err != nil {
		return nil, err
	}
	node.Style = yaml.FlowStyle
	return &node, nil
}

// Marshal returns the lock as a file, which does not depend on the order of the plugins.
func (l *Lock) Marshal() ([]byte, error) {
	sorted := Lock{Plugins: make([]Plugin, 0, len(l.Plugins))}
	for _, plugin := range l.Plugins {
		plugin.Provides = slices.SortedFunc(slices.Values(plugin.Provides), Provided.compare)
		sorted.Plugins = append(sorted.Plugins, plugin)
	}
	sorted.Sort()
	file := struct {
		APIVersion string   `yaml:"apiVersion"`
		Plugins    []Plugin `yaml:"plugins"`
	}{apiVersion, sorted.Plugins}
	data := bytes.NewBufferString(head)
	encoder := yaml.NewEncoder(data)
	encoder.SetIndent(2)
	if err := encoder.Encode(file); err != nil {
		return nil, fmt.Errorf("write the lock as YAML: %w", err)
	}
	return data.Bytes(), nil
}

// Write writes the lock to path. A reader sees the file that was there or the whole new one, also after a crash.
func (l *Lock) Write(path string) error {
	data, err := l.Marshal()
	if err != nil {
		return err
	}
	if _, err := Parse(path, data); err != nil {
		return fmt.Errorf("nobody could read this lock: %w", err)
	}
	if err := wholefile.Write(path, data, mode); err != nil {
		return fmt.Errorf("write the lock %s: %w", path, err)
	}
	return nil
}
