package redact

import (
	"encoding/json"
	"strings"
)

// Config returns the configuration of a plugin, decoded JSON, without secrets: without the values that the JSON Schema
// of the plugin marks as passwords or as write-only, those with the names of secrets, whatever is in them, and what
// looks like a secret within a text. The schema may be missing, or not valid.
func Config(value any, schema json.RawMessage) any {
	var rules any
	_ = json.Unmarshal(schema, &rules) // without rules, the names decide
	return config(value, rules, rules)
}

// config is Config for a value within a configuration, to which rule applies.
func config(value, rule, rules any) any {
	if marked(rule, rules, 0) {
		return hide(value)
	}
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, one := range v {
			if isSecret(key) {
				out[key] = hide(one)
				continue
			}
			out[key] = config(one, ruleOf(rule, rules, key), rules)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, element := range v {
			of := memberOf(resolve(rule, rules, 0), "items")
			if text, ok := element.(string); ok && !marked(of, rules, 0) {
				out[i] = argument(v[:i], text)
				continue
			}
			out[i] = config(element, of, rules)
		}
		return out
	case string:
		return document(v)
	default:
		return value
	}
}

// hide returns what is shown of a secret: nothing, unless it is empty.
func hide(value any) any {
	if value == nil || value == "" {
		return value
	}
	return Left
}

// mostSteps bounds how far the rules of a schema are followed.
const mostSteps = 10

// marked reports whether a rule says that the values are secrets.
func marked(rule, rules any, steps int) bool {
	object, _ := resolve(rule, rules, 0).(map[string]any)
	if object["writeOnly"] == true || object["format"] == "password" {
		return true
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		alternatives, _ := object[key].([]any)
		for _, alternative := range alternatives {
			if steps < mostSteps && marked(alternative, rules, steps+1) {
				return true
			}
		}
	}
	return false
}

// ruleOf returns the rule for a member of an object.
func ruleOf(rule, rules any, key string) any {
	rule = resolve(rule, rules, 0)
	if own := memberOf(memberOf(rule, "properties"), key); own != nil {
		return own
	}
	return memberOf(rule, "additionalProperties")
}

// resolve follows references within a schema.
func resolve(rule, rules any, steps int) any {
	reference, _ := memberOf(rule, "$ref").(string)
	path, local := strings.CutPrefix(reference, "#/")
	if !local || steps == mostSteps {
		return rule
	}
	at := rules
	for part := range strings.SplitSeq(path, "/") {
		at = memberOf(at, strings.NewReplacer("~1", "/", "~0", "~").Replace(part))
	}
	return resolve(at, rules, steps+1)
}

// memberOf returns a member of an object, nil if there is none.
func memberOf(value any, key string) any {
	object, _ := value.(map[string]any)
	return object[key]
}
