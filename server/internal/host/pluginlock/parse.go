package pluginlock

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/cleat-dev/cleat/framework/hostapi"
)

// maxSize is the longest lock that is read, in bytes: ten thousand binaries have about 3 MiB.
const maxSize = 16 << 20

// Read reads the lock at path.
func Read(path string) (*Lock, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no lock %s (%w); write it with \"cleat plugin lock\"", path, fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	defer file.Close()
	return ReadFrom(file, path)
}

// ReadFrom reads a lock to its end. Errors begin with name.
func ReadFrom(r io.Reader, name string) (*Lock, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read the lock: %w", err)
	}
	if len(data) > maxSize {
		return nil, fmt.Errorf("%s: it has more than %d MiB, which no lock has", name, maxSize>>20)
	}
	return Parse(name, data)
}

// Parse parses a lock. Errors begin with name and the line, and have the right form. Duplicate and unknown keys are
// errors, because a lock must not allow more than its author intends.
func Parse(name string, data []byte) (*Lock, error) {
	root, err := document(data)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", name, err)
	}
	lock, err := parseLock(root)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", name, err)
	}
	lock.Sort()
	return lock, nil
}

// lineError returns an error in a line; its text follows the name of the file.
func lineError(line int, format string, args ...any) error {
	return fmt.Errorf("%d: %w", max(line, 1), fmt.Errorf(format, args...))
}

// syntax matches the syntax errors of the YAML library.
var syntax = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)`)

// document returns the only document in data.
func document(data []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var root, more yaml.Node
	switch err := decoder.Decode(&root); {
	case errors.Is(err, io.EOF):
		return nil, lineError(1, "it is empty, want apiVersion: %s and plugins", apiVersion)
	case err != nil:
		parts := syntax.FindStringSubmatch(err.Error())
		if parts == nil {
			return nil, lineError(1, "no YAML: %w", err)
		}
		line, _ := strconv.Atoi(parts[1])
		return nil, lineError(line, "no YAML: %s", parts[2])
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, lineError(more.Line, "a second document, want one")
	}
	return root.Content[0], nil
}

func parseLock(root *yaml.Node) (*Lock, error) {
	top, err := fields(root, "the lock", "apiVersion", "plugins")
	if err != nil {
		return nil, err
	}
	if version := top["apiVersion"]; version.Value != apiVersion {
		return nil, lineError(version.Line, "apiVersion %q, want %s", version.Value, apiVersion)
	}
	lock := &Lock{}
	lines := map[string]int{}
	items, err := elements(top["plugins"], "plugins")
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		plugin, err := parsePlugin(item)
		if err != nil {
			return nil, err
		}
		if first, twice := lines[plugin.Path]; twice {
			return nil, lineError(item.Line, "path %q is in line %d already", plugin.Path, first)
		}
		lines[plugin.Path] = item.Line
		lock.Plugins = append(lock.Plugins, plugin)
	}
	return lock, nil
}

// sum256 is how a sum is written.
var sum256 = regexp.MustCompile(`^[0-9a-f]{64}$`)

func parsePlugin(node *yaml.Node) (Plugin, error) {
	keys, err := fields(node, "a plugin", "path", "sha256", "provides")
	if err != nil {
		return Plugin{}, err
	}
	path, sum := keys["path"], keys["sha256"]
	if err := checkPath(path.Value); err != nil || path.Kind != yaml.ScalarNode {
		return Plugin{}, lineError(path.Line, "path %q: want a file below the plugin directory, like vendor/mover",
			path.Value)
	}
	if !sum256.MatchString(sum.Value) {
		return Plugin{}, lineError(sum.Line, "sha256 %q: want 64 hexadecimal digits in lower case, as sha256sum prints them",
			sum.Value)
	}
	items, err := elements(keys["provides"], "provides")
	if err != nil {
		return Plugin{}, err
	}
	plugin := Plugin{Path: path.Value, SHA256: sum.Value, Provides: []Provided{}}
	for _, item := range items {
		provided, err := parseProvided(item)
		if err != nil {
			return Plugin{}, err
		}
		if slices.Contains(plugin.Provides, provided) {
			return Plugin{}, lineError(item.Line, "%s is listed twice in %s", provided, plugin.Path)
		}
		plugin.Provides = append(plugin.Provides, provided)
	}
	slices.SortFunc(plugin.Provides, Provided.compare)
	return plugin, nil
}

func checkPath(path string) error {
	if !fs.ValidPath(path) || path == "." || !printable(path) {
		return fs.ErrInvalid
	}
	return nil
}

func parseProvided(node *yaml.Node) (Provided, error) {
	keys, err := fields(node, "a line of provides", "kind", "version", "name")
	if err != nil {
		return Provided{}, err
	}
	kind, name := keys["kind"].Value, keys["name"].Value
	if kind == "" || !printable(kind) {
		return Provided{}, lineError(keys["kind"].Line, "kind %q: want a kind like BackupItemAction", kind)
	}
	version, err := strconv.Atoi(keys["version"].Value)
	if err != nil || version < 1 {
		return Provided{}, lineError(keys["version"].Line, "version %q: want a number from 1", keys["version"].Value)
	}
	if bare, number := hostapi.SplitWireKind(kind); bare != kind {
		return Provided{}, lineError(keys["kind"].Line, "kind %q: want the version apart, kind: %s and version: %d", kind,
			bare, number)
	}
	if name == "" || !printable(name) {
		return Provided{}, lineError(keys["name"].Line, "name %q: want the name of a plugin, like example.io/mover", name)
	}
	return Provided{Kind: kind, Version: version, Name: name}, nil
}

// Validate returns an error if a lock cannot contain p, which a process listed.
func (p Provided) Validate() error {
	if p.Kind == "" || !printable(p.Kind) || p.Name == "" || !printable(p.Name) {
		return fmt.Errorf("it lists %q of the kind %q, and a lock wants both in printable characters", p.Name, p.Kind)
	}
	return nil
}

func printable(text string) bool { return !strings.ContainsFunc(text, unicode.IsControl) }

// fields returns the values of a mapping that has all these keys and no others.
func fields(node *yaml.Node, what string, keys ...string) (map[string]*yaml.Node, error) {
	wanted := strings.Join(keys, ", ")
	if node.Kind != yaml.MappingNode {
		return nil, lineError(node.Line, "%s is not a mapping, want the keys %s", what, wanted)
	}
	values := map[string]*yaml.Node{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		switch {
		case !slices.Contains(keys, key.Value):
			return nil, lineError(key.Line, "unknown key %q of %s, want %s", key.Value, what, wanted)
		case values[key.Value] != nil:
			return nil, lineError(key.Line, "key %s of %s appears twice", key.Value, what)
		case value.Kind == yaml.AliasNode:
			return nil, lineError(value.Line, "%s is an alias, want the value itself", key.Value)
		}
		values[key.Value] = value
	}
	for _, key := range keys {
		if values[key] == nil {
			return nil, lineError(node.Line, "%s has no %s, want the keys %s", what, key, wanted)
		}
	}
	return values, nil
}

// elements returns the elements of a list.
func elements(node *yaml.Node, what string) ([]*yaml.Node, error) {
	if node.Kind != yaml.SequenceNode {
		return nil, lineError(node.Line, "%s is not a list; one without elements is []", what)
	}
	return node.Content, nil
}
