package drawing

import (
	"fmt"
	"io"
	"strings"
)

// DOT writes the graph for Graphviz.
func (g *Graph) DOT(out io.Writer) error {
	w := &writer{w: out}
	w.line("digraph %s {", dotText(safe(g.Title)))
	for _, note := range g.Notes {
		w.line("  // %s", safe(note))
	}
	w.line("  rankdir=LR;")
	w.line(`  node [shape=box, style="rounded,filled", fillcolor=white, fontname="sans-serif", fontsize=10];`)
	w.line(`  edge [fontname="sans-serif", fontsize=8];`)
	for i := range g.Nodes {
		n := &g.Nodes[i]
		label := strings.Join(append([]string{safe(n.Resource), safe(n.label())}, n.marks()...), "\n")
		w.line("  n%d [label=%s%s];", i, strings.ReplaceAll(dotText(label), "\n", `\n`), dotStyle(n))
	}
	for i := range g.Edges {
		e := &g.Edges[i]
		style := "dashed"
		if e.Strict {
			style = "solid"
		}
		tooltip := ""
		if details := safe(e.details()); details != "" {
			tooltip = ", tooltip=" + dotText(details)
		}
		w.line("  n%d -> n%d [label=%s, style=%s%s];", e.From, e.To, dotText(safe(e.label())), style, tooltip)
	}
	w.line("}")
	return w.failed
}

func dotStyle(n *Node) string {
	switch {
	case n.Missing:
		return `, style="rounded,dashed", color=red`
	case n.Cycle > 0:
		return ", color=red, penwidth=2"
	case n.Asked:
		return ", penwidth=2"
	default:
		return fmt.Sprintf(", fillcolor=%q", fills[colourOf(n.Resource)])
	}
}
