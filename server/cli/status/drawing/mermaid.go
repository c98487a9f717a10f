package drawing

import (
	"fmt"
	"io"
	"strings"
)

// mermaidEdges is the number of edges that Mermaid draws unless it is configured otherwise.
const mermaidEdges = 500

// Mermaid writes the graph for Mermaid, which Markdown on GitHub and GitLab shows.
func (g *Graph) Mermaid(out io.Writer) error {
	w := &writer{w: out}
	w.line("flowchart LR")
	notes := g.Notes
	if len(g.Edges) > mermaidEdges {
		notes = append(notes, fmt.Sprintf("%d edges; Mermaid draws %d unless maxEdges is set", len(g.Edges), mermaidEdges))
	}
	for _, note := range notes {
		w.line("  %%%% %s", mermaidText(safe(note)))
	}
	classes := map[string][]string{}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		parts := append([]string{mermaidText(safe(n.Resource)), mermaidText(safe(n.label()))}, n.marks()...)
		w.line(`  n%d["%s"]`, i, strings.Join(parts, "<br/>"))
		switch name := fmt.Sprintf("n%d", i); {
		case n.Missing:
			classes["missing"] = append(classes["missing"], name)
		case n.Cycle > 0:
			classes["cycle"] = append(classes["cycle"], name)
		case n.Asked:
			classes["asked"] = append(classes["asked"], name)
		}
	}
	for i := range g.Edges {
		e := &g.Edges[i]
		arrow := "-.->"
		if e.Strict {
			arrow = "-->"
		}
		w.line(`  n%d %s|"%s"| n%d`, e.From, arrow, mermaidText(safe(e.label())), e.To)
	}
	for _, class := range []struct{ name, style string }{
		{"missing", "stroke:#c00,stroke-dasharray:4"}, {"cycle", "stroke:#c00,stroke-width:2px"}, {"asked",
			"stroke-width:3px"},
	} {
		if nodes := classes[class.name]; len(nodes) > 0 {
			w.line("  classDef %s %s", class.name, class.style)
			w.line("  class %s %s", strings.Join(nodes, ","), class.name)
		}
	}
	return w.failed
}
