package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/message"
)

// violations turns the errors of a JSON Schema validator into problems.
type violations struct {
	object  Object
	schema  any
	found   *problems
	printer *message.Printer
}

func (v violations) problem(location []string, format string, args ...any) {
	v.found.add(v.object.locate(location), format, args...)
}

func (v violations) add(e *jsonschema.ValidationError) {
	switch what := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		for _, property := range what.Properties {
			v.problem(append(slices.Clone(e.InstanceLocation), property), "unknown key%s", v.knownAt(e.SchemaURL))
		}
	case *kind.Required:
		for _, property := range what.Missing {
			text := "is missing"
			if want := v.errorMessage(e.SchemaURL + "/properties/" + property); want != "" {
				text += ", " + want
			}
			v.problem(append(slices.Clone(e.InstanceLocation), property), "%s", text)
		}
	case *kind.PropertyNames:
		// The validator's location of such an error is wrong: it shares memory with the locations of later values.
		text := fmt.Sprintf("has the key %q, which is not allowed", what.Property)
		if want := v.errorMessage(e.SchemaURL); want != "" {
			text += ", " + want
		}
		v.problem(nil, "%s", text)
	case *kind.AnyOf, *kind.OneOf:
		v.problem(e.InstanceLocation, "%s", v.alternatives(e))
	default:
		for _, cause := range e.Causes {
			v.add(cause)
		}
		if len(e.Causes) == 0 {
			v.problem(e.InstanceLocation, "%s", v.text(e))
		}
	}
}

// text returns the message about one value.
func (v violations) text(e *jsonschema.ValidationError) string {
	is := "is " + describe(v.object.find(e.InstanceLocation))
	if want := v.errorMessage(e.SchemaURL); want != "" {
		return is + ", " + want
	}
	switch what := e.ErrorKind.(type) {
	case *kind.FalseSchema:
		return "is not allowed here"
	case *kind.Format:
		return what.Err.Error()
	case *kind.Type:
		return is + ", want " + typeNames(what.Want)
	case *kind.Enum:
		var want []string
		for _, value := range what.Want {
			want = append(want, fmt.Sprint(value))
		}
		return is + ", want one of " + strings.Join(want, ", ")
	case *kind.MinLength:
		if what.Got == 0 {
			return "is empty; give it a value, or leave the key out"
		}
	}
	return e.ErrorKind.LocalizedString(v.printer)
}

// typeNames returns types of JSON Schema in the terms of YAML.
func typeNames(types []string) string {
	var names []string
	for _, name := range types {
		switch name {
		case "null":
		case "object":
			names = append(names, "a mapping")
		case "array":
			names = append(names, "a list")
		case "string":
			names = append(names, "text; put it in quotes")
		case "integer":
			names = append(names, "a whole number")
		case "number":
			names = append(names, "a number")
		case "boolean":
			names = append(names, "true or false")
		}
	}
	return strings.Join(names, " or ")
}

// alternatives returns the message about a value that matches none of several schemas.
func (v violations) alternatives(e *jsonschema.ValidationError) string {
	if len(e.Causes) == 0 {
		return v.text(e)
	}
	var each problems
	for _, cause := range e.Causes {
		inner := v
		inner.found = &each
		inner.add(cause)
	}
	var texts []string
	for _, problem := range each {
		text := problem.Message
		if inside, deeper := strings.CutPrefix(problem.Key, v.object.locate(e.InstanceLocation).key); deeper && inside != "" {
			text = strings.TrimPrefix(inside, ".") + " " + text
		}
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return "fits none of what is allowed: " + strings.Join(texts, "; or ")
}

// knownAt returns "; known are ..." with the properties of the schema at url.
func (v violations) knownAt(url string) string {
	properties, _ := v.lookup(url)["properties"].(map[string]any)
	if len(properties) == 0 {
		return ""
	}
	return "; known are " + strings.Join(slices.Sorted(maps.Keys(properties)), ", ")
}

// errorMessage returns the keyword of that name of the schema at url, which describes the valid values.
func (v violations) errorMessage(url string) string {
	text, _ := v.lookup(url)["errorMessage"].(string)
	return text
}

// lookup returns the schema at url, or nil if there is none.
func (v violations) lookup(url string) map[string]any {
	_, pointer, _ := strings.Cut(url, "#")
	at := v.schema
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		switch parent := at.(type) {
		case map[string]any:
			if token != "" {
				at = parent[strings.NewReplacer("~1", "/", "~0", "~").Replace(token)]
			}
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(parent) {
				return nil
			}
			at = parent[i]
		default:
			return nil
		}
	}
	table, _ := at.(map[string]any)
	return table
}
