package reference

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Row is a field of some resources that refers to another object. It has either To or As.
type Row struct {
	// Resources have the field: plural and group, as in "pods" or "deployments.apps". "*.example.io" stands for all
	// resources of a group.
	Resources []string `yaml:"resources"`
	// Paths lead to the name of the other object: "spec.volumes[*].persistentVolumeClaim.claimName". [*] is each element
	// of a list, * each value of a map, and ["example.io/name"] a key that is not a plain word.
	Paths []string `yaml:"paths"`
	// When has values of fields beside the name. A field that has none of its values is no reference; "" stands for a
	// missing one.
	When map[string][]string `yaml:"when"`
	// To is the other object.
	To Target `yaml:"to"`
	// Strict is set if the object cannot be created or cannot work before the other one exists.
	Strict bool `yaml:"strict"`
	// SoftIf is a field beside the name. If it is true, the reference is not strict.
	SoftIf string `yaml:"softIf"`

	// As means that the values at the paths have the references of a part of another resource.
	As Part `yaml:"as"`
}

// Target is the object to which a name refers.
type Target struct {
	// Resource is plural and group, as in "services". It may be empty if the object has the kind in a field.
	Resource string `yaml:"resource"`
	// Kind is the kind of Resource.
	Kind string `yaml:"kind"`
	// Namespace is Same, which is the default, or Cluster.
	Namespace string `yaml:"namespace"`
	// Fields describe the object further. Their values replace Resource, Kind and Namespace.
	Fields Fields `yaml:"fields"`
	// PerReplica is set if the name belongs to a template, from which each replica has an object of its own. It is named
	// like a claim of a StatefulSet: the name of the template, the name of the object that refers to it, and the ordinal
	// of the replica.
	PerReplica bool `yaml:"perReplica"`
}

// Values of Target.Namespace.
const (
	Same    = "Same"    // that of the object which refers to it
	Cluster = "Cluster" // none
)

// Fields are names of fields beside the name of an object.
type Fields struct {
	APIVersion string `yaml:"apiVersion"` // group and version
	Group      string `yaml:"group"`
	Kind       string `yaml:"kind"`
	Namespace  string `yaml:"namespace"`
	UID        string `yaml:"uid"`
}

// Part is a part of the objects of a resource.
type Part struct {
	Resource string `yaml:"resource"`
	Path     string `yaml:"path"`
}

// Problem is a mistake in a row.
type Problem struct {
	Row     int    // its index
	Key     string // in the row: "paths[0]"
	Message string
}

// Error implements error.
func (p Problem) Error() string { return fmt.Sprintf("references[%d].%s %s", p.Row, p.Key, p.Message) }

// Check returns the mistakes in rows that are to be added to the table.
func Check(rows []Row) []Problem {
	found := check(rows)
	for i := 0; len(found) == 0 && i < len(rows); i++ {
		if _, err := New(rows[:i+1]); err != nil {
			found = append(found, Problem{Row: i, Key: "as", Message: err.Error()})
		}
	}
	return found
}

// check returns the mistakes in single rows.
func check(rows []Row) []Problem {
	var found []Problem
	for i, row := range rows {
		row.check(func(key, format string, args ...any) {
			found = append(found, Problem{Row: i, Key: key, Message: fmt.Sprintf(format, args...)})
		})
	}
	return found
}

// resource is a plural and a group, or * and a group.
var resource = regexp.MustCompile(`^(\*\.[a-z0-9]|[a-z0-9])[a-z0-9.-]*$`)

func (r Row) check(report func(key, format string, args ...any)) {
	for i, name := range r.Resources {
		if !resource.MatchString(name) {
			report(fmt.Sprintf("resources[%d]", i),
				`is %q, want a plural and a group such as "deployments.apps", or "*.apps" for all`, name)
		}
	}
	if len(r.Resources) == 0 {
		report("resources", "is empty, want at least one resource")
	}
	if len(r.Paths) == 0 {
		report("paths", "is empty, want at least one path")
	}
	for i, text := range r.Paths {
		p, err := parsePath(text)
		switch {
		case err != nil:
			report(fmt.Sprintf("paths[%d]", i), "is not a path: %v", err)
		case p[len(p)-1].wildcard() && r.needsSiblings():
			report(fmt.Sprintf("paths[%d]", i), "ends in *, so that there are no fields beside the name; remove when, softIf "+
				"and to.fields")
		}
	}
	switch {
	case r.isPart() && r.To != Target{}:
		report("as", "is set, and so is to; remove one of them")
	case r.isPart() && (r.When != nil || r.Strict || r.SoftIf != ""):
		report("as", "is set, so when, strict and softIf have no effect; remove them")
	case r.isPart():
		r.As.check(report)
	case r.To == Target{}:
		report("to", "is missing; want the object that is referred to")
	default:
		r.To.check(report)
	}
}

// isPart reports whether the row has As.
func (r Row) isPart() bool { return r.As != Part{} }

func (r Row) needsSiblings() bool {
	return len(r.When) > 0 || r.SoftIf != "" || r.To.Fields != Fields{}
}

func (t Target) check(report func(key, format string, args ...any)) {
	if t.Resource == "" && t.Fields.Kind == "" {
		report("to.resource", "is missing; want a plural and a group, or the field that has the kind in to.fields.kind")
	}
	if t.Resource != "" && (!resource.MatchString(t.Resource) || strings.HasPrefix(t.Resource, "*")) {
		report("to.resource", `is %q, want a plural and a group such as "deployments.apps"`, t.Resource)
	}
	if t.Resource != "" && t.Kind == "" {
		report("to.kind", "is missing; want the kind of to.resource")
	}
	if !slices.Contains([]string{"", Same, Cluster}, t.Namespace) {
		report("to.namespace", "is %q, want %s or %s", t.Namespace, Same, Cluster)
	}
}

func (p Part) check(report func(key, format string, args ...any)) {
	if !resource.MatchString(p.Resource) || strings.HasPrefix(p.Resource, "*") {
		report("as.resource", `is %q, want a plural and a group such as "pods"`, p.Resource)
	}
	if _, err := parsePath(p.Path); err != nil {
		report("as.path", "is not a path: %v", err)
	}
}
