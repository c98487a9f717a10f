package plugininit

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"go/format"
	"slices"
	"strings"
	"text/template"
)

//go:embed templates
var templates embed.FS

// goVersion is the version of Go that the framework requires.
const goVersion = "1.26.0"

// File is one file of a project.
type File struct {
	Path    string // with slashes, relative to the project's folder
	Content []byte
}

// project is the data of the templates.
type project struct {
	Name            string // of the plugin: "example.io/stamp"
	Base            string // after the slash: "stamp"
	Module          string
	Go, GoMinor     string
	FrameworkModule string
	Framework       source
	Kinds           []kind
}

// KindsByWord returns the kinds in the order in which a plugin lists them.
func (p project) KindsByWord() []kind {
	return slices.SortedFunc(slices.Values(p.Kinds), func(a, b kind) int { return cmp.Compare(a.Kind, b.Kind) })
}

// InUse returns the kinds that a server uses only if it is configured to.
func (p project) InUse() []kind {
	return slices.DeleteFunc(slices.Clone(p.Kinds), func(k kind) bool { return k.Use == "" })
}

// TestConfig returns the Go code of the option that configures the plugins in the conformance suite, for the directory
// that the variable bucket names. It is empty if there is nothing to configure, or if two kinds with the same name take
// different configurations.
func (p project) TestConfig() string {
	has := func(word string) bool {
		return slices.ContainsFunc(p.Kinds, func(k kind) bool { return k.Kind == word })
	}
	if !has("ObjectStore") && !has("DataMover") || has("VolumeSnapshotter") {
		return ""
	}
	return `conformance.WithConfig(pluginName, map[string]string{"path": filepath.Dir(bucket), "bucket": filepath.Base(bucket)})`
}

// Files returns the files of the project that o describes, sorted by path. The error names the wrong option.
func Files(o Options) ([]File, error) {
	p := project{Name: o.Name, Go: goVersion, GoMinor: goVersion[:strings.LastIndexByte(goVersion, '.')],
		FrameworkModule: frameworkModule}
	var err error
	if p.Base, err = base(o.Name); err != nil {
		return nil, err
	}
	if p.Module, err = o.module(); err != nil {
		return nil, err
	}
	if p.Framework, err = o.framework(); err != nil {
		return nil, err
	}
	if p.Kinds, err = chosen(o.Kinds); err != nil {
		return nil, err
	}
	byTemplate := map[string]string{
		"go.mod": "go.mod", "main.go": "main.go", "main_test.go": "main_test.go", "Makefile": "Makefile",
		"Dockerfile": "Dockerfile", "README.md": "README.md", "gitignore": ".gitignore", "dockerignore": ".dockerignore",
		"ci.yaml": ".github/workflows/ci.yaml",
	}
	for _, kind := range p.Kinds {
		for _, name := range []string{kind.File + ".go", kind.File + "_test.go"} {
			byTemplate["kinds/"+name] = name
		}
	}
	var files []File
	for template, path := range byTemplate {
		content, err := p.render(template)
		if err != nil {
			return nil, fmt.Errorf("file %s: %w", path, err)
		}
		files = append(files, File{Path: path, Content: content})
	}
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return files, nil
}

// render returns the content of a file; Go files are formatted.
func (p project) render(name string) ([]byte, error) {
	parsed, err := template.ParseFS(templates, "templates/"+name+".tmpl")
	if err != nil {
		return nil, err
	}
	var content bytes.Buffer
	if err := parsed.Execute(&content, p); err != nil {
		return nil, err
	}
	if strings.HasSuffix(name, ".go") {
		return format.Source(content.Bytes())
	}
	return content.Bytes(), nil
}
