package reference

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework/manifest"
)

// MaxEdges is how many references of one object are kept.
const MaxEdges = 10_000

// Of returns the references of an object of a resource, whose targets need not exist. raw is the JSON of the object;
// fields without references are not validated. Each object that is referred to has one edge, with the first field that
// names it; the edge is strict if one of the fields makes it so. If there are more than MaxEdges, the last edge is one
// of type manifest.More instead.
func (t *Table) Of(group, resource, namespace string, raw []byte) ([]manifest.Edge, error) {
	w := walker{raw: raw, namespace: namespace}
	if edge := definition(group, resource); !t.groups[group] && isName(edge.To.Name) { // an archive may have any name
		w.edges = append(w.edges, edge)
	}
	root := t.resources[schema.GroupResource{Group: group, Resource: resource}]
	if root == nil {
		root = t.others[group]
	}
	if root == nil {
		return w.edges, nil
	}
	w.Decoder = jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true),
		jsontext.AllowInvalidUTF8(true))
	switch err := w.read(root); {
	case err == nil, errors.Is(err, errDone):
		return w.edges, nil
	default:
		return nil, fmt.Errorf("invalid JSON at byte %d: %w", w.InputOffset(), err)
	}
}

// definition returns the edge of a custom resource to its CustomResourceDefinition.
func definition(group, resource string) manifest.Edge {
	return manifest.Edge{Type: manifest.Reference, Strict: true, Path: "apiVersion", To: manifest.Ref{
		Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Kind: "CustomResourceDefinition",
		Name: resource + "." + group,
	}}
}

// errDone ends a walk when the rest of the object is not needed.
var errDone = errors.New("done")

// walker reads one object.
type walker struct {
	*jsontext.Decoder
	raw       []byte
	namespace string
	path      []byte // of the current value
	texts     []text // of the objects around the current value
	edges     []manifest.Edge
	index     map[manifest.Ref]int // of edges, once there are many
	seen      []*node              // members of the root that have been read
}

// text is the value of a field that is kept: a string, or the word true, which is not present as a string.
type text struct {
	value   string
	present bool
}

// read reads the next value.
func (w *walker) read(n *node) error {
	switch kind := w.PeekKind(); {
	case kind == '{' && (n.members != nil || n.value != nil):
		return w.object(n)
	case kind == '[' && n.element != nil:
		return w.array(n)
	case kind == '"' && n.bare != nil:
		name, err := w.ReadToken()
		if err != nil {
			return err
		}
		return w.bare(n.bare, name.String())
	}
	return w.skip()
}

func (w *walker) object(n *node) error {
	if _, err := w.ReadToken(); err != nil {
		return err
	}
	base, length := len(w.texts), len(w.path)
	w.texts = append(w.texts, make([]text, n.texts)...)
	for w.PeekKind() != '}' {
		if err := w.member(n, base); err != nil {
			return err
		}
		w.path = w.path[:length]
		if length == 0 && len(w.seen) == len(n.members) && n.value == nil {
			return cmp.Or(w.named(n, w.texts[base:]), errDone)
		}
	}
	if _, err := w.ReadToken(); err != nil {
		return err
	}
	err := w.named(n, w.texts[base:])
	w.texts = w.texts[:base]
	return err
}

// member reads a name and its value.
func (w *walker) member(n *node, base int) error {
	quoted, err := w.ReadValue()
	if err != nil {
		return err
	}
	key := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(key, '\\') >= 0 {
		if key, err = jsontext.AppendUnquote(nil, quoted); err != nil {
			return err
		}
	}
	child := n.members[string(key)]
	root := len(w.path) == 0
	switch {
	case child == nil && n.value == nil:
		return w.skip()
	case child == nil:
		child = n.value
		w.path = appendLabel(w.path, label(string(key)))
	default:
		w.path = appendLabel(w.path, child.label)
	}
	if root && !slices.Contains(w.seen, child) {
		w.seen = append(w.seen, child)
	}
	if child.text == 0 {
		return w.read(child)
	}
	kind := w.PeekKind()
	if kind != '"' && kind != 't' {
		return w.read(child)
	}
	token, err := w.ReadToken()
	if err != nil {
		return err
	}
	w.texts[base+child.text-1] = text{value: token.String(), present: kind == '"'}
	if kind == 't' {
		return nil
	}
	return w.bare(child.bare, token.String())
}

func (w *walker) array(n *node) error {
	if _, err := w.ReadToken(); err != nil {
		return err
	}
	length := len(w.path)
	for i := 0; w.PeekKind() != ']'; i++ {
		w.path = append(strconv.AppendInt(append(w.path, '['), int64(i), 10), ']')
		if err := w.read(n.element); err != nil {
			return err
		}
		w.path = w.path[:length]
	}
	_, err := w.ReadToken()
	return err
}

// skip reads the next value. To read a value that is in memory is faster than jsontext's SkipValue, which reads token
// by token.
func (w *walker) skip() error {
	_, err := w.ReadValue()
	return err
}
