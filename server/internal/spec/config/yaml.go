package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

var yamlLine = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)

// parseYAML returns the root of the only document in data.
func parseYAML(name string, data []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return nil, &Problem{File: name, Message: "is empty, want at least apiVersion: " + APIVersion}
	}
	if err == nil {
		var second yaml.Node
		if err = decoder.Decode(&second); err == nil {
			return nil, &Problem{File: name, Line: second.Line, Message: "there is a second document; want one"}
		}
		if errors.Is(err, io.EOF) {
			return document.Content[0], nil
		}
	}
	problem := &Problem{File: name, Message: strings.TrimPrefix(err.Error(), "yaml: ")}
	if parts := yamlLine.FindStringSubmatch(err.Error()); parts != nil {
		problem.Line, _ = strconv.Atoi(parts[1])
		problem.Message = parts[2]
	}
	problem.Message = "is not YAML: " + problem.Message
	return nil, problem
}

// converter converts YAML to the types of JSON.
type converter struct{ found problems }

func (c *converter) problem(at position, node *yaml.Node, format string, args ...any) {
	at.line = node.Line
	c.found.add(at, format, args...)
}

func (c *converter) convert(at position, node *yaml.Node) any {
	switch node.Kind {
	case yaml.MappingNode:
		return c.mapping(at, node)
	case yaml.SequenceNode:
		list := make([]any, 0, len(node.Content))
		for i, item := range node.Content {
			if at := at.below(node, strconv.Itoa(i)); c.isPlain(at, item) {
				list = append(list, c.convert(at, item))
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
			c.problem(at, node, "is %s, which cannot be read: %v", describe(node), err)
		}
		if n, ok := value.(float64); ok && (math.IsInf(n, 0) || math.IsNaN(n)) {
			c.problem(at, node, "is %s, which JSON has no number for", describe(node))
			return nil
		}
		return value
	default: // also what looks like a date
		return node.Value
	}
}

func (c *converter) mapping(at position, node *yaml.Node) map[string]any {
	table := map[string]any{}
	lines := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if !c.isPlain(at, key) {
			continue
		}
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
			c.problem(at, key, "has a key that is %s, want text", describe(key))
			continue
		}
		at := at.below(node, key.Value)
		if line, twice := lines[key.Value]; twice {
			c.problem(at, key, "is set a second time, the first is in line %d", line)
			continue
		}
		lines[key.Value] = key.Line
		if c.isPlain(at, value) {
			table[key.Value] = c.convert(at, value)
		}
	}
	return table
}

// isPlain reports whether node has no anchor, alias or tag, and records a problem if it has one.
func (c *converter) isPlain(at position, node *yaml.Node) bool {
	plain := node.Kind != yaml.AliasNode && node.Anchor == "" && node.Style&yaml.TaggedStyle == 0
	if !plain {
		c.problem(at, node, "has an anchor, alias or tag (&, *, !) of YAML, which are not supported; write the value itself")
	}
	return plain
}

// below returns the position of a key or list index in the node at this position, without its line.
func (p position) below(node *yaml.Node, token string) position {
	switch {
	case node != nil && node.Kind == yaml.SequenceNode:
		p.key += "[" + token + "]"
	case p.key == "":
		p.key = token
	default:
		p.key += "." + token
	}
	return p
}

// child returns the value of a key or list index in node, and its line; nil if node has no such value.
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

// describe describes the value of a node for an error.
func describe(node *yaml.Node) string {
	switch {
	case node == nil:
		return "empty"
	case node.Kind == yaml.MappingNode:
		return "a mapping"
	case node.Kind == yaml.SequenceNode:
		return "a list"
	}
	switch node.ShortTag() {
	case "!!null":
		return "empty"
	case "!!int", "!!float":
		return "the number " + shorten.Text(node.Value, 64)
	case "!!bool":
		return "the truth value " + node.Value
	default:
		return fmt.Sprintf("the text %q", shorten.Text(node.Value, 64))
	}
}
