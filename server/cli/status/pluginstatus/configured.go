package pluginstatus

import (
	"encoding/json"
	"strings"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/redact"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

// Configured is what plugins were configured with, without secrets.
type Configured struct {
	From    string       `json:"from,omitempty"` // where the configuration of the server is, as a sentence
	Parts   []ConfigPart `json:"parts"`
	Problem string       `json:"problem,omitempty"` // a sentence about what could not be read
}

// ConfigPart is a part of a configuration that is about a plugin.
type ConfigPart struct {
	Plugin string `json:"plugin"`
	Key    string `json:"key"` // "plugins.config.example.io/a", or "location default"
	Value  any    `json:"value"`
}

// NewConfigured returns what the plugins of a report were configured with: by the configuration file of the server,
// which is nil if it could not be read, and by locations.
func NewConfigured(
	r *serverreport.PluginReport, file *config.File, from string, locations []velerov1.BackupStorageLocation,
	snapshots []velerov1.VolumeSnapshotLocation,
) *Configured {
	c := &Configured{From: from, Parts: []ConfigPart{}}
	for _, name := range r.Names() {
		schema := schemaOf(r, name)
		if file != nil {
			for _, part := range file.About(name) {
				var value any
				if json.Unmarshal(part.JSON, &value) != nil { // it was encoded by us
					continue
				}
				rules := schema
				if !part.Config {
					rules = nil
				}
				c.Parts = append(c.Parts, ConfigPart{name, part.Key, redact.Config(value, rules)})
			}
		}
		for i := range locations {
			if l := &locations[i]; provides(name, l.Spec.Provider) {
				c.add(name, "location "+l.Name, l.Spec.Config)
			}
		}
		for i := range snapshots {
			if l := &snapshots[i]; provides(name, l.Spec.Provider) {
				c.add(name, "snapshot location "+l.Name, l.Spec.Config)
			}
		}
	}
	return c
}

// add adds the configuration of a location.
func (c *Configured) add(name, key string, settings map[string]string) {
	value := make(map[string]any, len(settings))
	for key, text := range settings {
		value[key] = text
	}
	c.Parts = append(c.Parts, ConfigPart{name, key, redact.Config(value, nil)})
}

// provides reports whether a plugin is the provider of a location, which may have a short name.
func provides(name, provider string) bool { return name == provider || name == "velero.io/"+provider }

// schemaOf returns the schema of the configuration of a plugin, nil if it is not known.
func schemaOf(r *serverreport.PluginReport, name string) json.RawMessage {
	for i := range r.Plugins {
		if p := &r.Plugins[i]; p.Name == name && p.Details != nil && len(p.ConfigSchema) > 0 {
			return p.ConfigSchema
		}
	}
	return nil
}

// Print writes what plugins were configured with.
func (c *Configured) Print(d *layout.Description) {
	d.Gap()
	d.Section("Configured with", func() {
		if c.From != "" {
			d.Line("%s", layout.OneLine(c.From))
		}
		if c.Problem != "" {
			d.Line("%s", layout.OneLine(c.Problem))
		}
		if len(c.Parts) == 0 && c.Problem == "" {
			d.Line("nothing: its defaults")
		}
		for i := range c.Parts {
			part := &c.Parts[i]
			var text strings.Builder
			encoder := json.NewEncoder(&text)
			encoder.SetEscapeHTML(false)
			encoder.SetIndent("", "  ")
			if err := encoder.Encode(part.Value); err != nil { // it was decoded from JSON
				continue
			}
			d.Section(layout.OneLine(part.Key), func() { d.Text(text.String()) })
		}
	})
}
