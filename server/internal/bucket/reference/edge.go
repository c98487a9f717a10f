package reference

import (
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework/manifest"
)

// bare adds the edges of rows whose name is the current value.
func (w *walker) bare(rows []*Row, name string) error {
	for _, row := range rows {
		to := schema.ParseGroupResource(row.To.Resource)
		if err := w.refer(row, row.Strict, manifest.Ref{
			Group: to.Group, Resource: to.Resource, Kind: row.To.Kind, Namespace: w.namespaceOf(row.To), Name: name,
		}); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) namespaceOf(t Target) string {
	if t.Namespace == Cluster {
		return ""
	}
	return w.namespace
}

// named adds the edges of the rules of an object that has been read.
func (w *walker) named(n *node, texts []text) error {
	length := len(w.path)
	for _, a := range n.named {
		to, found := w.target(a, texts)
		if !found {
			continue
		}
		w.path = appendLabel(w.path, a.label)
		if err := w.refer(a.row, a.row.Strict && at(texts, a.softIf).value != "true", to); err != nil {
			return err
		}
		w.path = w.path[:length]
	}
	return nil
}

// at returns the text at a position that a rule has.
func at(texts []text, place int) text {
	if place == 0 {
		return text{}
	}
	return texts[place-1]
}

// target returns the object to which a rule leads, and false if it does not lead to any.
func (w *walker) target(a *anchor, texts []text) (to manifest.Ref, found bool) {
	name := at(texts, a.name)
	if !name.present || slices.ContainsFunc(a.when,
		func(c condition) bool { return !slices.Contains(c.values, at(texts, c.text).value) }) {
		return manifest.Ref{}, false
	}
	fixed := a.row.To
	to = manifest.Ref{Group: a.to.Group, Kind: fixed.Kind, Namespace: w.namespaceOf(fixed), Name: name.value,
		UID: at(texts, a.uid).value}
	if version := at(texts, a.apiVersion); version.value != "" {
		group, _, named := strings.Cut(version.value, "/")
		if to.Group = group; !named {
			to.Group = "" // core
		}
	}
	if group := at(texts, a.group); group.present {
		to.Group = group.value
	}
	if kind := at(texts, a.kind); kind.value != "" {
		to.Kind = kind.value
	}
	if namespace := at(texts, a.namespace); namespace.value != "" {
		to.Namespace = namespace.value
	}
	if to.Group == a.to.Group && to.Kind == fixed.Kind {
		to.Resource = a.to.Resource
	}
	return to, to.Kind != ""
}

// refer adds the edges of a row to an object that the value at the current path names.
func (w *walker) refer(row *Row, strict bool, to manifest.Ref) error {
	if row.To.PerReplica {
		return w.replicas(strict, to)
	}
	return w.add(strict, to)
}

// many is from how many edges on they are found by an index.
const many = 32

// add adds an edge, or makes the one to the same object strict.
func (w *walker) add(strict bool, to manifest.Ref) error {
	if !isName(to.Name) {
		return nil
	}
	if i := w.find(to); i >= 0 {
		w.edges[i].Strict = w.edges[i].Strict || strict
		return nil
	}
	if len(w.edges) == MaxEdges {
		w.edges = append(w.edges, manifest.Edge{Type: manifest.More})
		return errDone
	}
	w.edges = append(w.edges, manifest.Edge{Type: manifest.Reference, Strict: strict, To: to, Path: string(w.path)})
	if w.index != nil {
		w.index[to] = len(w.edges) - 1
	}
	return nil
}

// find returns the index of the edge to an object, or -1.
func (w *walker) find(to manifest.Ref) int {
	if len(w.edges) < many {
		return slices.IndexFunc(w.edges, func(e manifest.Edge) bool { return e.To == to })
	}
	if w.index == nil {
		w.index = map[manifest.Ref]int{}
		for i, e := range w.edges {
			w.index[e.To] = i
		}
	}
	if i, found := w.index[to]; found {
		return i
	}
	return -1
}

// maxName is as many bytes as an item of a manifest may have as its name.
const maxName = 1 << 10

// isName reports whether an object can have a name: it has to be a segment of a path.
func isName(name string) bool {
	return name != "" && len(name) <= maxName && name != "." && name != ".." && !strings.ContainsAny(name, "/%\x00") &&
		utf8.ValidString(name)
}
