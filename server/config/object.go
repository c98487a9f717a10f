package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Object is configuration that is not the server's to understand: a plugin gets it.
type Object struct {
	// JSON of an object; nil when nothing was set.
	JSON []byte

	place place      // also when nothing was set
	node  *yaml.Node // nil when nothing was set
}

// object reads node as the configuration of a plugin.
func (r *reader) object(path string, node *yaml.Node, into *Object) {
	if node.ShortTag() == "!!null" {
		return
	}
	if node.Kind != yaml.MappingNode {
		r.problem(path, node, "is %s, want keys and values", describe(node))
		return
	}
	encoded, err := json.Marshal(r.plainValue(path, node))
	if err != nil {
		r.problem(path, node, "cannot be told as JSON: %v", err)
		return
	}
	into.JSON, into.node = encoded, node
}

// plainValue is node in the types of JSON.
func (r *reader) plainValue(path string, node *yaml.Node) any {
	switch node.Kind {
	case yaml.MappingNode:
		table := map[string]any{}
		r.eachKey(path, node, func(key string, _, value *yaml.Node) {
			if r.isPlain(below(path, key), value) {
				table[key] = r.plainValue(below(path, key), value)
			}
		})
		return table
	case yaml.SequenceNode:
		list := make([]any, 0, len(node.Content))
		for i, item := range node.Content {
			at := fmt.Sprintf("%s[%d]", path, i)
			if r.isPlain(at, item) {
				list = append(list, r.plainValue(at, item))
			}
		}
		return list
	}
	switch node.ShortTag() {
	case "!!null":
		return nil
	case "!!bool", "!!int", "!!float":
		var value any
		if err := node.Decode(&value); err != nil {
			r.problem(path, node, "is %s, which cannot be read: %v", describe(node), err)
		}
		if n, ok := value.(float64); ok && (math.IsInf(n, 0) || math.IsNaN(n)) {
			r.problem(path, node, "is %s, which JSON has no number for", describe(node))
			return nil
		}
		return value
	default: // also what looks like a date
		return node.Value
	}
}

// locate is the place of what is at location in the object. When it is not there, the line is that of what is nearest
// around it.
func (o Object) locate(location []string) place {
	at, node := o.place, o.node
	for _, token := range location {
		next, line := child(node, token)
		if node != nil && node.Kind == yaml.SequenceNode {
			at.key += "[" + token + "]"
		} else {
			at.key = below(at.key, token)
		}
		if node = next; line > 0 {
			at.line = line
		}
	}
	return at
}

// child is what node has for a key or an index, and the line of it; nil when it has nothing there.
func child(node *yaml.Node, token string) (*yaml.Node, int) {
	if node == nil {
		return nil, 0
	}
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == token {
				return node.Content[i+1], node.Content[i].Line
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i].Line
		}
	}
	return nil, 0
}

// Bytes is what the plugin gets: JSON of an object, also when nothing was set.
func (o Object) Bytes() []byte {
	if o.JSON == nil {
		return []byte("{}")
	}
	return bytes.Clone(o.JSON)
}
