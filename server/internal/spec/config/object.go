package config

import (
	"bytes"
	"encoding/json"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Object is a part of the file as JSON, such as the configuration of a plugin.
type Object struct {
	// JSON of an object; nil when nothing was set.
	JSON []byte

	position position   // also when nothing was set
	node     *yaml.Node // nil when nothing was set
}

// newObject converts node, which is at a position, to JSON.
func newObject(at position, node *yaml.Node) (Object, problems) {
	var c converter
	o := Object{position: at, node: node}
	if !c.isPlain(at, node) {
		return o, c.found
	}
	encoded, err := json.Marshal(c.convert(at, node))
	if err != nil {
		c.problem(at, node, "cannot be converted to JSON: %v", err)
	}
	o.JSON = encoded
	return o, c.found
}

// object returns the part of the object at a path of keys and list indexes. The object has been converted to JSON
// without problems.
func (o Object) object(path ...string) Object {
	part := Object{position: o.locate(path)}
	node := o.find(path)
	if node == nil || node.ShortTag() == "!!null" {
		return part
	}
	part, _ = newObject(part.position, node)
	return part
}

// objects returns the objects in the mapping at a path by their keys; nil if there are none.
func (o Object) objects(path ...string) map[string]Object {
	mapping := o.find(path)
	if mapping == nil || mapping.Kind != yaml.MappingNode || len(mapping.Content) == 0 {
		return nil
	}
	objects := map[string]Object{}
	for i := 0; i < len(mapping.Content); i += 2 {
		key := mapping.Content[i].Value
		objects[key] = o.object(append(slices.Clone(path), key)...)
	}
	return objects
}

// find returns the node at a path of keys and list indexes, or nil if it does not exist.
func (o Object) find(path []string) *yaml.Node {
	node := o.node
	for _, token := range path {
		node, _ = child(node, token)
	}
	return node
}

// locate returns the position of the value at a path of keys and list indexes. If it does not exist, the line is the
// line of the nearest value around it.
func (o Object) locate(path []string) position {
	at, node := o.position, o.node
	for _, token := range path {
		at = at.below(node, token)
		next, line := child(node, token)
		if node = next; line > 0 {
			at.line = line
		}
	}
	return at
}

// Bytes returns the JSON of an object that a plugin gets, also when nothing was set.
func (o Object) Bytes() []byte {
	if o.JSON == nil {
		return []byte("{}")
	}
	return bytes.Clone(o.JSON)
}
