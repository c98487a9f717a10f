package config

import (
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/framework/hostenv"
	"github.com/cleat-dev/cleat/server/internal/bucket/reference"
)

// fileSchema is the JSON Schema of the file, with formats from formats.go. An errorMessage in it is the text of the
// error about a value that does not match the schema around it.
//
//go:embed file.schema.json
var fileSchema []byte

// Parse parses the content of a file that is called name in errors; see ReadFile.
func Parse(name string, data []byte) (*File, error) {
	if len(data) > maxFileSize {
		return nil, &Problem{File: name, Message: fmt.Sprintf("is larger than %d bytes", maxFileSize)}
	}
	node, err := parseYAML(name, data)
	if err != nil {
		return nil, err
	}
	root, found := newObject(position{file: name, line: node.Line}, node)
	if len(found) > 0 {
		return nil, found.err()
	}
	if found, err = root.match(fileSchema, formats()); err != nil {
		return nil, err
	}
	if len(found) > 0 {
		return nil, found.err()
	}
	file := &File{root: root}
	if err := node.Decode(file); err != nil {
		return nil, &Problem{File: name, Message: err.Error()}
	}
	for _, named := range file.Named() {
		*named.config = root.object(append(named.path, "config")...)
	}
	file.Plugins.Config = root.objects("plugins", "config")
	if err := file.validate().err(); err != nil {
		return nil, err
	}
	if file.Plugins.Variables == nil {
		file.Plugins.Variables = file.Plugins.Environment.variables
	}
	return file, nil
}

// validate returns the mistakes that the schema of the file does not find: invalid names of keys, plugins that are in a
// list twice, and references that lead nowhere.
func (f *File) validate() (found problems) {
	f.checkVariables(&found, f.Plugins.Environment.variables, "environment")
	f.checkVariables(&found, f.Plugins.Variables, "variables")
	if len(f.Plugins.Environment.variables) > 0 && len(f.Plugins.Variables) > 0 {
		found.add(f.root.locate([]string{"plugins", "environment"}),
			"has variables, and so has plugins.variables; move them there")
	}
	for _, name := range slices.Sorted(maps.Keys(f.Plugins.Config)) {
		if err := hostapi.ValidateName(name); err != nil {
			found.add(f.Plugins.Config[name].position, "%v", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Plugins.Concurrency)) {
		if err := hostapi.ValidateName(name); err != nil {
			found.add(f.root.locate([]string{"plugins", "concurrency", name}), "%v", err)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(f.Plugins.Deadlines.Kinds)) {
		if err := checkKind(kind); err != nil {
			found.add(f.root.locate([]string{"plugins", "deadlines", "kinds", kind}), "%v", err)
		}
	}
	var writers []string
	for _, writer := range f.Backups.ManifestWriters {
		writers = append(writers, writer.Plugin)
	}
	f.unique(&found, writers, "backups", "manifestWriters")
	f.unique(&found, f.Plugins.Order, "plugins", "order")
	f.checkTrust(&found)
	for _, problem := range reference.Check(f.Backups.References) {
		path := append([]string{"backups", "references", strconv.Itoa(problem.Row)}, tokens(problem.Key)...)
		found.add(f.root.locate(path), "%s", problem.Message)
	}
	return found
}

// checkVariables adds a problem for each variable below plugins.key that cannot be set for plugins.
func (f *File) checkVariables(found *problems, variables map[string]string, key string) {
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		at := f.root.locate([]string{"plugins", key, name})
		switch {
		case !variable.MatchString(name):
			found.add(at, "is not a name of an environment variable: want letters, digits and _, and no digit first")
		case hostenv.Reserved(name):
			found.add(at, "is set by the server for each process of a plugin; remove it")
		}
	}
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// unique adds a problem for each name that is in a list twice.
func (f *File) unique(found *problems, names []string, path ...string) {
	at := func(i int) position { return f.root.locate(append(slices.Clone(path), strconv.Itoa(i))) }
	first := map[string]int{}
	for i, name := range names {
		if earlier, twice := first[name]; twice {
			found.add(at(i), "%q is in the list already, in line %d", name, at(earlier).line)
			continue
		}
		first[name] = i
	}
}
