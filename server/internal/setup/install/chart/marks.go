package chart

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// marked is an object with marks: strings that YAML prints unchanged, and that are replaced by template code.
type marked struct {
	object *unstructured.Unstructured
	codes  []code
}

// code is the template code of a mark.
type code struct {
	// inline replaces the mark.
	inline string
	// block replaces the whole line of the mark. It is indented like it, and in it "KEY" stands for the key of the line.
	block string
}

// mark returns the text of a new mark.
func (m *marked) mark(c code) string {
	m.codes = append(m.codes, c)
	return fmt.Sprintf("mark-%d-mark", len(m.codes)-1)
}

// value puts an expression at a path.
func (m *marked) value(expression string, path ...string) {
	m.set(m.mark(code{inline: "{{ " + expression + " }}"}), path...)
}

// optional puts the YAML of an expression at a path, unless it is empty.
func (m *marked) optional(expression string, path ...string) {
	m.set(m.mark(code{block: "{{- with " + expression + "}}\nKEY\n  {{- toYaml . | nindent INDENT}}\n{{- end}}"}), path...)
}

// always puts the YAML of an expression at a path, also if it is empty.
func (m *marked) always(expression string, path ...string) { m.set(m.yaml(expression), path...) }

// yaml returns a value that is the YAML of an expression.
func (m *marked) yaml(expression string) string {
	return m.mark(code{block: "KEY\n  {{- toYaml " + expression + " | nindent INDENT }}"})
}

// block puts a block of template code at a path.
func (m *marked) block(text string, path ...string) { m.set(m.mark(code{block: text}), path...) }

// item returns an element of a list that is template code.
func (m *marked) item(text string) any { return m.mark(code{block: text}) }

func (m *marked) set(value any, path ...string) {
	if err := unstructured.SetNestedField(m.object.Object, value, path...); err != nil {
		panic(err) // the objects are ours
	}
}

// container changes the container of the server.
func (m *marked) container(change func(c map[string]any)) {
	path := []string{"spec", "template", "spec", "containers"}
	containers, _, err := unstructured.NestedSlice(m.object.Object, path...)
	if err != nil {
		panic(err) // the objects are ours
	}
	c, ok := containers[0].(map[string]any)
	if !ok {
		panic("a container is no object")
	}
	change(c)
	m.set(containers, path...)
}

var (
	markLine = regexp.MustCompile(`(?m)^( *)(?:- )?(?:([\w./-]+:) )?mark-(\d+)-mark$`)
	markText = regexp.MustCompile(`mark-(\d+)-mark`)
)

// template returns the object as template code.
func (m *marked) template() (string, error) {
	data, err := yaml.Marshal(m.object.Object)
	if err != nil {
		return "", err
	}
	text := markLine.ReplaceAllStringFunc(string(data), func(line string) string {
		found := markLine.FindStringSubmatch(line)
		indent, key := found[1], found[2]
		block := m.code(found[3]).block
		if block == "" {
			return line
		}
		block = strings.NewReplacer("INDENT0", strconv.Itoa(len(indent)), "INDENT", strconv.Itoa(len(indent)+2)).Replace(
			block,
		)
		lines := strings.Split(strings.ReplaceAll(block, "KEY", key), "\n")
		for i, l := range lines {
			if !strings.HasPrefix(l, "{{-") {
				lines[i] = indent + l
			}
		}
		return strings.Join(lines, "\n")
	})
	return markText.ReplaceAllStringFunc(text,
		func(mark string) string { return m.code(markText.FindStringSubmatch(mark)[1]).inline }), nil
}

func (m *marked) code(number string) code {
	i, err := strconv.Atoi(number)
	if err != nil {
		panic(err) // the expression matches digits
	}
	return m.codes[i]
}

// list returns a list of an object.
func list(value any) []any {
	items, ok := value.([]any)
	if !ok {
		panic(fmt.Sprintf("%T is no list", value)) // the objects are ours
	}
	return items
}

func yamlOf(value any) string {
	data, err := yaml.Marshal(value)
	if err != nil {
		panic(err) // it is plain
	}
	return string(data)
}
