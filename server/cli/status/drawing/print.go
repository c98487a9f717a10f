package drawing

import "io"

// Forms returns the forms in which Print prints a graph, the default first.
func Forms() []string { return []string{"tree", "dot", "mermaid", "svg", "html"} }

// Print prints the graph in one of the Forms. A picture has a box for each item if these are not more than limit, or if
// that is 0. A tree begins with what others need if referrers is set.
func (g *Graph) Print(w io.Writer, form string, limit int, referrers bool) error {
	if form == "tree" {
		return g.Tree(w, referrers)
	}
	if limit > 0 {
		g = g.Collapse(limit)
	}
	switch form {
	case "dot":
		return g.DOT(w)
	case "mermaid":
		return g.Mermaid(w)
	case "svg":
		return g.SVG(w)
	default:
		return g.HTML(w)
	}
}
