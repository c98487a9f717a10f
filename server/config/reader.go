package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// positions is where in the file the keys stand, and which of them are flags as well.
type positions struct {
	name     string         // of the file
	lines    map[string]int // by key
	settings []setting
}

// setting is a key that has a flag.
type setting struct {
	place
	flag  string
	value string
}

// at is the place of a key, or else that of the nearest one around it.
func (p *positions) at(key string) place {
	for around := key; around != ""; {
		if line, known := p.lines[around]; known {
			return place{file: p.name, line: line, key: key}
		}
		around = around[:max(0, strings.LastIndexAny(around, ".["))]
	}
	return place{file: p.name, key: key}
}

// Parse reads data, which is called name in errors; see ReadFile.
func Parse(name string, data []byte) (*File, error) {
	r := &reader{positions: positions{name: name, lines: map[string]int{}}}
	if len(data) > maxFileSize {
		r.found.add(place{file: name}, "is larger than %d bytes", maxFileSize)
		return nil, r.found.err()
	}
	root := r.document(data)
	if root == nil {
		return nil, r.found.err()
	}
	file := &File{}
	r.mapping("", root, reflect.ValueOf(file).Elem())
	if err := r.found.err(); err != nil {
		return nil, err
	}
	file.positions = r.positions
	return file, nil
}

// reader walks YAML and File side by side.
type reader struct {
	positions
	found problems
}

func (r *reader) problem(key string, node *yaml.Node, format string, args ...any) {
	r.found.add(place{file: r.name, line: node.Line, key: key}, format, args...)
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)

// document is the root of the only document in data; nil after a problem.
func (r *reader) document(data []byte) *yaml.Node {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	err := decoder.Decode(&document)
	if err == nil {
		var second yaml.Node
		if err = decoder.Decode(&second); err == nil {
			r.problem("", &second, "there is a second document; want one")
			return nil
		}
		if errors.Is(err, io.EOF) {
			return document.Content[0]
		}
	}
	if errors.Is(err, io.EOF) {
		r.found.add(place{file: r.name}, "is empty, want at least apiVersion: %s", APIVersion)
		return nil
	}
	message, at := strings.TrimPrefix(err.Error(), "yaml: "), place{file: r.name}
	if parts := yamlLine.FindStringSubmatch(err.Error()); parts != nil {
		at.line, _ = strconv.Atoi(parts[1])
		message = parts[2]
	}
	r.found.add(at, "is no YAML: %s", message)
	return nil
}

// field is one key of a mapping.
type field struct {
	key   string
	tag   reflect.StructTag
	index int
}

// fieldsOf are the keys that a mapping of type t may have, in their order.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		if key, ok := t.Field(i).Tag.Lookup("key"); ok {
			fields = append(fields, field{key: key, tag: t.Field(i).Tag, index: i})
		}
	}
	return fields
}

// below is the path of a key in the mapping at path.
func below(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// mapping reads node into a struct.
func (r *reader) mapping(path string, node *yaml.Node, into reflect.Value) {
	fields := fieldsOf(into.Type())
	set := map[string]bool{}
	r.eachKey(path, node, func(key string, at, value *yaml.Node) {
		var known []string
		for _, f := range fields {
			if known = append(known, f.key); f.key == key {
				set[key] = true
				r.value(below(path, key), value, f.tag, into.Field(f.index))
				return
			}
		}
		r.problem(below(path, key), at, "unknown key; known are %s", strings.Join(known, ", "))
	})
	for _, f := range fields {
		if object, ok := into.Field(f.index).Addr().Interface().(*Object); ok {
			object.place = place{file: r.name, line: cmp.Or(r.lines[below(path, f.key)], node.Line), key: below(path, f.key)}
		}
		if f.tag.Get("required") != "" && !set[f.key] && plain(node) {
			r.problem(below(path, f.key), node, "is missing%s", wanted(f.tag))
		}
	}
}

// eachKey calls do with each key of a mapping that is there for the first time. Nothing at all is a mapping without
// keys.
func (r *reader) eachKey(path string, node *yaml.Node, do func(key string, at, value *yaml.Node)) {
	if !r.isPlain(path, node) || node.ShortTag() == "!!null" {
		return
	}
	if node.Kind != yaml.MappingNode {
		r.problem(path, node, "is %s, want keys and values", describe(node))
		return
	}
	first := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if !r.isPlain(path, key) {
			continue
		}
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
			r.problem(path, key, "has a key that is %s, want text", describe(key))
			continue
		}
		if line, twice := first[key.Value]; twice {
			r.problem(below(path, key.Value), key, "is set a second time, the first is in line %d", line)
			continue
		}
		first[key.Value] = key.Line
		r.lines[below(path, key.Value)] = key.Line
		do(key.Value, key, value)
	}
}

// plain tells whether node is what it looks like: no alias, and of the type that its text has by itself.
func plain(node *yaml.Node) bool {
	return node.Kind != yaml.AliasNode && node.Anchor == "" && node.Style&yaml.TaggedStyle == 0
}

func (r *reader) isPlain(path string, node *yaml.Node) bool {
	if !plain(node) {
		r.problem(path, node, "has an anchor, alias or tag (&, *, !) of YAML, which are not supported; write the value itself")
	}
	return plain(node)
}

// value reads node into one field, as its type and tags say.
func (r *reader) value(path string, node *yaml.Node, tag reflect.StructTag, into reflect.Value) {
	if !r.isPlain(path, node) {
		return
	}
	switch into.Kind() {
	case reflect.Struct:
		if object, ok := into.Addr().Interface().(*Object); ok {
			r.object(path, node, object)
			return
		}
		r.mapping(path, node, into)
	case reflect.Slice:
		r.list(path, node, tag, into)
	case reflect.Map:
		into.Set(reflect.MakeMap(into.Type()))
		r.eachKey(path, node, func(key string, at, value *yaml.Node) {
			if err := checks(tag.Get("keys"), key); err != nil {
				r.problem(below(path, key), at, "%v", err)
				return
			}
			element := reflect.New(into.Type().Elem()).Elem()
			r.value(below(path, key), value, tag, element)
			into.SetMapIndex(reflect.ValueOf(key), element)
		})
	default:
		if err := scalar(node, tag, into); err != nil {
			r.problem(path, node, "%v", err)
			return
		}
		if flag := tag.Get("flag"); flag != "" {
			r.settings = append(r.settings, setting{
				place: place{file: r.name, line: node.Line, key: path}, flag: flag, value: fmt.Sprint(into.Interface()),
			})
		}
	}
}

// list reads node into a slice. Nothing at all is an empty list.
func (r *reader) list(path string, node *yaml.Node, tag reflect.StructTag, into reflect.Value) {
	if node.ShortTag() == "!!null" {
		return
	}
	if node.Kind != yaml.SequenceNode {
		r.problem(path, node, "is %s, want a list", describe(node))
		return
	}
	first := map[string]int{}
	for i, item := range node.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		r.lines[at] = item.Line
		element := reflect.New(into.Type().Elem()).Elem()
		r.value(at, item, tag, element)
		into.Set(reflect.Append(into, element))
		if name := identity(element, tag.Get("unique")); name != "" {
			if line, twice := first[name]; twice {
				r.problem(at, item, "%q is in the list already, in line %d", name, line)
				continue
			}
			first[name] = item.Line
		}
	}
}

// identity is what an element of a list must not have in common with another: itself, or its key called unique.
func identity(element reflect.Value, unique string) string {
	switch {
	case unique == "":
		return ""
	case element.Kind() == reflect.String:
		return element.String()
	}
	for _, f := range fieldsOf(element.Type()) {
		if f.key == unique {
			return element.Field(f.index).String()
		}
	}
	return ""
}

// describe says what node is, for a reader who expected something else.
func describe(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "keys and values"
	case yaml.SequenceNode:
		return "a list"
	}
	switch node.ShortTag() {
	case "!!null":
		return "empty"
	case "!!int", "!!float":
		return "the number " + clip(node.Value)
	case "!!bool":
		return "the truth value " + node.Value
	default:
		return "the text " + strconv.Quote(clip(node.Value))
	}
}

// clip shortens what is quoted in an error.
func clip(text string) string {
	const most = 64
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
