package drawing

import (
	"fmt"
	"io"
	"strings"
)

// deepest is the number of levels of a tree. What is deeper gets a tree of its own, because a manifest may hold a chain
// of any length.
const deepest = 50

// Tree writes the graph as text: below each node its dependencies or, with referrers, its dependents. A node whose
// branch was written before is not written again.
func (g *Graph) Tree(out io.Writer, referrers bool) error {
	t := &tree{graph: g, w: &writer{w: out}, below: make([][]branch, len(g.Nodes)), state: make([]state, len(g.Nodes))}
	above := make([]int, len(g.Nodes))
	for i := range g.Edges {
		from, to := g.Edges[i].From, g.Edges[i].To
		if referrers {
			from, to = to, from
		}
		t.below[from] = append(t.below[from], branch{edge: &g.Edges[i], node: to})
		if from != to {
			above[to]++
		}
	}
	for _, wanted := range []func(i int) bool{
		func(i int) bool { return g.Nodes[i].Asked },
		func(i int) bool { return above[i] == 0 },
		func(int) bool { return true }, // of cycles without a beginning
	} {
		for i := range g.Nodes {
			if wanted(i) && t.state[i] == unseen {
				t.w.line("%s", text(&g.Nodes[i], nil, ""))
				t.write(i, "", 1)
			}
		}
	}
	for _, note := range g.Notes {
		t.w.line("%s", safe(note))
	}
	return t.w.failed
}

type tree struct {
	graph *Graph
	w     *writer
	below [][]branch
	state []state
}

type branch struct {
	edge *Edge
	node int
}

type state int

const (
	unseen state = iota
	open         // on the way to the current node
	seen
)

// write writes the nodes below a node.
func (t *tree) write(i int, indent string, level int) {
	t.state[i] = open
	for k, b := range t.below[i] {
		bar, more := "├── ", "│   "
		if k == len(t.below[i])-1 {
			bar, more = "└── ", "    "
		}
		note := ""
		switch {
		case t.state[b.node] == open:
			note = "cycle"
		case len(t.below[b.node]) > 0 && t.state[b.node] == seen:
			note = "see above"
		case len(t.below[b.node]) > 0 && level == deepest:
			note = "continued below"
		}
		t.w.line("%s%s%s", indent, bar, text(&t.graph.Nodes[b.node], b.edge, note))
		if t.state[b.node] == unseen && level < deepest {
			t.write(b.node, indent+more, level+1)
		}
	}
	t.state[i] = seen
}

// text returns the line of a node.
func text(n *Node, e *Edge, note string) string {
	var out strings.Builder
	if e != nil {
		fmt.Fprintf(&out, "%s %s: ", e.strength(), e.label())
	}
	out.WriteString(n.title())
	notes := n.marks()
	if note != "" {
		notes = append(notes, note)
	}
	if len(notes) > 0 {
		fmt.Fprintf(&out, " (%s)", strings.Join(notes, "; "))
	}
	if e != nil && e.details() != "" {
		fmt.Fprintf(&out, "  [%s]", e.details())
	}
	return safe(out.String())
}
