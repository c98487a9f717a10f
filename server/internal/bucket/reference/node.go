package reference

import "k8s.io/apimachinery/pkg/runtime/schema"

// node is a value in the objects of a resource in which rules need something. All other values are skipped.
type node struct {
	label   string           // the key as it continues the path of the object around it
	members map[string]*node // of an object
	value   *node            // every other member of an object; nil if not needed
	element *node            // every element of an array; nil if not needed
	// text is the position of the value's text among those that are kept until the object around it ends, plus 1; 0 if not
	// kept.
	text  int
	texts int       // how many texts an object keeps
	named []*anchor // rules with the name in a text of the object
	bare  []*Row    // rules with the value itself as the name
}

// anchor is a rule at the object that has the name. Numbers are positions of texts, plus 1; 0 stands for none.
type anchor struct {
	row                                           *Row
	label                                         string // of the name
	to                                            schema.GroupResource
	name, apiVersion, group, kind, namespace, uid int
	softIf                                        int
	when                                          []condition
}

// condition is a condition for a text.
type condition struct {
	text   int
	values []string
}

// compile returns the tree of the values that rules need, for the value at which their paths begin.
func compile(rules []rule) *node {
	n := &node{}
	deeper := map[step][]rule{}
	for _, r := range rules {
		switch {
		case len(r.path) == 0:
			n.bare = append(n.bare, r.row)
		case len(r.path) > 1 || r.path[0].wildcard():
			deeper[r.path[0]] = append(deeper[r.path[0]], rule{r.path[1:], r.row})
		}
	}
	each := deeper[eachValue]
	for s, found := range deeper {
		switch s {
		case eachElement:
			n.element = compile(found)
		case eachValue:
			n.value = compile(found)
		default:
			n.add(string(s), compile(append(found, each...)))
		}
	}
	for _, r := range rules {
		if len(r.path) == 1 && !r.path[0].wildcard() {
			n.named = append(n.named, n.anchor(r.row, string(r.path[0]), each))
		}
	}
	return n
}

func (n *node) add(key string, child *node) {
	if n.members == nil {
		n.members = map[string]*node{}
	}
	child.label = label(key)
	n.members[key] = child
}

// anchor returns the rule of a row that has the name in a field. The rules of each apply to every member.
func (n *node) anchor(row *Row, name string, each []rule) *anchor {
	place := func(key string) int {
		if key == "" {
			return 0
		}
		child := n.members[key]
		if child == nil {
			child = compile(each)
			n.add(key, child)
		}
		if child.text == 0 {
			n.texts++
			child.text = n.texts
		}
		return child.text
	}
	fields := row.To.Fields
	a := &anchor{
		row: row, label: label(name), to: schema.ParseGroupResource(row.To.Resource), name: place(name),
		softIf:     place(row.SoftIf),
		apiVersion: place(fields.APIVersion), group: place(fields.Group), kind: place(fields.Kind),
		namespace: place(fields.Namespace), uid: place(fields.UID),
	}
	for key, values := range row.When {
		a.when = append(a.when, condition{place(key), values})
	}
	return a
}
