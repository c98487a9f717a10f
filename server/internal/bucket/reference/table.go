package reference

import (
	"bytes"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

//go:embed references.yaml
var builtIn []byte

// document is the content of references.yaml.
type document struct {
	// BuiltInGroups are the API groups whose resources have no CustomResourceDefinition. The core group is one of them.
	BuiltInGroups []string `yaml:"builtInGroups"`
	References    []Row    `yaml:"references"`
}

func parse(text []byte) (document, error) {
	var read document
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&read); err != nil {
		return document{}, err
	}
	for _, problem := range check(read.References) {
		return document{}, problem
	}
	return read, nil
}

// Table has the rows that apply to each resource. It is safe for concurrent use.
type Table struct {
	groups    map[string]bool // built-in ones
	resources map[schema.GroupResource]*node
	others    map[string]*node // of all resources of a group that resources does not have
}

// BuiltIn returns the table without rows of the config file.
var BuiltIn = sync.OnceValue(func() *Table {
	table, err := New(nil)
	if err != nil {
		panic("references.yaml: " + err.Error()) // a test reads it
	}
	return table
})

// New returns the table with additional rows, for which Check has no problem.
func New(rows []Row) (*Table, error) {
	read, err := parse(builtIn)
	if err != nil {
		return nil, err
	}
	t := &Table{groups: map[string]bool{"": true}, resources: map[schema.GroupResource]*node{}, others: map[string]*node{}}
	for _, group := range read.BuiltInGroups {
		t.groups[group] = true
	}
	e := expansion{rows: append(read.References, rows...)}
	groups := map[string][]rule{}
	rules := map[schema.GroupResource][]rule{}
	for _, name := range e.resources() {
		found, err := e.rules(name)
		if err != nil {
			return nil, err
		}
		if gr := schema.ParseGroupResource(name); gr.Resource == "*" {
			groups[gr.Group] = found
		} else {
			rules[gr] = found
		}
	}
	for group, found := range groups {
		t.others[group] = compile(found)
	}
	for gr, found := range rules {
		t.resources[gr] = compile(append(found, groups[gr.Group]...))
	}
	return t, nil
}

// rule is a row for one resource and one path.
type rule struct {
	path []step
	row  *Row // that has To
}

// expansion replaces rows with As by the rows of the part.
type expansion struct {
	rows []Row
	open []string // resources whose rows are looked for
}

// resources returns the resources that have rows.
func (e *expansion) resources() []string {
	var all []string
	for _, row := range e.rows {
		all = append(all, row.Resources...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (e *expansion) rules(resource string) ([]rule, error) {
	if slices.Contains(e.open, resource) {
		return nil, fmt.Errorf("leads in a circle: %s", strings.Join(append(e.open, resource), ", "))
	}
	e.open = append(e.open, resource)
	defer func() { e.open = e.open[:len(e.open)-1] }()
	var all []rule
	for i := range e.rows {
		row := &e.rows[i]
		if !slices.Contains(row.Resources, resource) {
			continue
		}
		for _, text := range row.Paths {
			path, err := parsePath(text)
			if err != nil {
				return nil, err
			}
			if !row.isPart() {
				all = append(all, rule{path, row})
				continue
			}
			part, err := e.part(row.As)
			if err != nil {
				return nil, err
			}
			for _, r := range part {
				all = append(all, rule{slices.Concat(path, r.path), r.row})
			}
		}
	}
	return all, nil
}

// part returns the rules of a part of a resource, with paths below it.
func (e *expansion) part(of Part) ([]rule, error) {
	path, err := parsePath(of.Path)
	if err != nil {
		return nil, err
	}
	all, err := e.rules(of.Resource)
	if err != nil {
		return nil, err
	}
	var below []rule
	for _, r := range all {
		if len(r.path) > len(path) && slices.Equal(r.path[:len(path)], path) {
			below = append(below, rule{r.path[len(path):], r.row})
		}
	}
	return below, nil
}
