package chart

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"unicode"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/cleat-dev/cleat/server/internal/setup/install"
	"github.com/cleat-dev/cleat/server/internal/setup/install/monitoring"
)

//go:embed files
var files embed.FS

// Chart has the files of the chart.
type Chart struct {
	Version    string           // of the program, as in v1.2.3
	Image      string           // repository and tag of the server's image
	Flags      []*pflag.Flag    // of the server
	AgentFlags []*pflag.Flag    // of a node agent
	Options    *install.Options // of an installation with the default values
}

// Write writes the chart into a directory, which must be empty or not exist.
func (c *Chart) Write(dir string) error {
	written, err := c.render()
	if err != nil {
		return fmt.Errorf("render the chart: %w", err)
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("write the chart: %s is not empty", dir)
	}
	for name, content := range written {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("write the chart: %w", err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return fmt.Errorf("write the chart: %w", err)
		}
	}
	return nil
}

// render returns the files of the chart by their names.
func (c *Chart) render() (map[string]string, error) {
	written := map[string]string{}
	if err := addDefinitions(written); err != nil {
		return nil, err
	}
	for name, render := range c.templates() {
		text, err := render()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		written["templates/"+name] = text
	}
	for _, name := range []string{"schedules.yaml", "metrics.yaml", "monitoring.yaml", "extra.yaml", "NOTES.txt"} {
		content, err := files.ReadFile("files/" + name)
		if err != nil {
			return nil, err
		}
		written["templates/"+name] = string(content)
	}
	written["monitoring/alerts.yaml"], written["monitoring/dashboard.json"] = string(monitoring.Alerts),
		string(monitoring.Dashboard)
	for _, name := range []string{"Chart.yaml", "values.yaml", "README.md"} {
		text, err := c.fill(name)
		if err != nil {
			return nil, err
		}
		written[name] = text
	}
	return written, nil
}

// addDefinitions adds the custom resource definitions, which Helm installs before everything else.
func addDefinitions(written map[string]string) error {
	objects, err := install.DefinitionObjects()
	if err != nil {
		return err
	}
	for _, object := range objects {
		data, err := yaml.Marshal(object.Object)
		if err != nil {
			return err
		}
		written["crds/"+object.GetName()+".yaml"] = string(data)
	}
	return nil
}

// fill returns a file in which the defaults of the objects are filled in.
func (c *Chart) fill(name string) (string, error) {
	content, err := files.ReadFile("files/" + name + ".tmpl")
	if err != nil {
		return "", err
	}
	parsed, err := template.New(name).Delims("[[", "]]").Funcs(template.FuncMap{"yaml": indentedYAML}).Parse(
		string(content),
	)
	if err != nil {
		return "", err
	}
	repository, tag, _ := strings.Cut(c.Image, ":")
	values := map[string]any{"Version": strings.TrimPrefix(c.Version, "v"), "Repository": repository, "Tag": tag,
		"Settings": c.settings()}
	for name, kind := range map[string]string{"": "Deployment/velero", "Agent": "DaemonSet"} {
		object, err := c.object(kind, "")
		if err != nil {
			return "", err
		}
		pod, _, _ := unstructured.NestedMap(object.Object, "spec", "template", "spec")
		containers, _, _ := unstructured.NestedSlice(pod, "containers")
		values[name+"Pod"], values[name+"Container"] = pod, containers[0]
	}
	var text strings.Builder
	err = parsed.Execute(&text, values)
	return text.String(), err
}

// settings returns the flags of the server, and then the flags that only a node agent has.
func (c *Chart) settings() []setting {
	var settings []setting
	known := map[string]bool{}
	for _, flags := range [][]*pflag.Flag{c.Flags, c.AgentFlags} {
		for _, flag := range flags {
			if !known[flag.Name] {
				settings = append(settings, setting{Name: settingName(flag.Name), Flag: flag.Name, Usage: flag.Usage})
			}
			known[flag.Name] = true
		}
	}
	return settings
}

// setting is a flag of the server as a value of the chart.
type setting struct{ Name, Flag, Usage string }

// settingName returns the name under "configuration" in the values of Velero's chart: the name of the flag in another
// spelling, with exceptions.
func settingName(flag string) string {
	switch flag {
	case "client-qps":
		return "clientQPS"
	case "default-backup-ttl":
		return "defaultBackupTTL"
	case "restore-only":
		return "restoreOnlyMode"
	}
	var name strings.Builder
	upper := false
	for _, r := range flag {
		switch {
		case r == '-':
			upper = true
			continue
		case upper:
			r = unicode.ToUpper(r)
		}
		upper = false
		name.WriteRune(r)
	}
	return name.String()
}

// indentedYAML returns a value as YAML, each line indented.
func indentedYAML(indent int, value any) (string, error) {
	data, err := yaml.Marshal(value)
	if err != nil {
		return "", err
	}
	space := strings.Repeat(" ", indent)
	return space + strings.ReplaceAll(strings.TrimSpace(string(data)), "\n", "\n"+space), nil
}
