package drawing

import (
	_ "embed"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"

	"github.com/cleat-dev/cleat/framework/manifest"
)

//go:embed picture.css
var style string

// colour returns the colour of a resource.
type colour struct{ fill, stroke string }

// colourOf returns the colour of a resource, the same in all pictures.
func colourOf(resource string) colour {
	colours := []colour{
		{"#e3f2fd", "#1e6fb8"}, {"#e8f5e9", "#2e7d32"}, {"#fff3e0", "#b85c00"}, {"#f3e5f5", "#7b1fa2"}, {"#e0f7fa",
			"#00737f"}, {"#fce4ec", "#b0124f"},
		{"#f9fbe7", "#6b7700"}, {"#ede7f6", "#4527a0"}, {"#e0f2f1", "#00695c"}, {"#fffde7", "#8a6d00"}, {"#eceff1",
			"#455a64"}, {"#efebe9", "#5d4037"},
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(resource)) // a hash does not fail
	return colours[hash.Sum32()%uint32(len(colours))]
}

// SVG writes the graph as a picture that needs no other file.
func (g *Graph) SVG(out io.Writer) error {
	w := &writer{w: out}
	w.line(`<?xml version="1.0" encoding="UTF-8"?>`)
	g.svg(w)
	return w.failed
}

func (g *Graph) svg(w *writer) {
	p := arrange(g)
	head := slices.Concat([]string{g.Title}, g.Notes)
	above := margin + len(head)*lineHeight + lineHeight // with the legend
	width := max(p.width, 760)                          // of the legend
	for _, text := range head {
		width = max(width, 2*margin+len(safe(text))*charWidth)
	}
	w.line(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">`, width,
		above+p.height, width, above+p.height)
	w.line("<title>%s</title>", xmlText(safe(g.Title)))
	w.line("<style>\n%s</style>", style)
	w.line(`<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>`)
	w.line(`<rect class="paper" width="100%%" height="100%%"/>`)
	for i, text := range head {
		class := "note"
		if i == 0 {
			class = "head"
		}
		w.line(`<text class="%s" x="%d" y="%d">%s</text>`, class, margin, margin+i*lineHeight, xmlText(safe(text)))
	}
	legend(w, margin+len(head)*lineHeight)
	w.line(`<g transform="translate(0 %d)">`, above)
	for i := range g.Edges {
		g.svgEdge(w, &g.Edges[i], p.lines[i])
	}
	if p.alone > 0 {
		w.line(`<text class="note" x="%d" y="%d">Without dependencies:</text>`, margin, p.alone)
	}
	for i := range g.Nodes {
		svgNode(w, i, &g.Nodes[i], p.boxes[i])
	}
	w.line("</g>\n</svg>")
}

// legend explains the lines.
func legend(w *writer, y int) {
	x := margin
	for _, entry := range []struct{ class, text string }{
		{"edge strict controller", "controller"}, {"edge strict owner", "owner"}, {"edge strict reference", "reference"},
		{"edge strict action", "action of a plugin"}, {"edge", "soft"}, {"edge strict wrong", "cycle, or not in the backup"},
	} {
		w.line(`<path class="%s" d="M%d %dh28"/><text class="note" x="%d" y="%d">%s</text>`, entry.class, x, y-4, x+34, y,
			entry.text)
		x += 34 + len(entry.text)*charWidth + 14
	}
}

// svgEdge draws a line that arrives at the last of points.
func (g *Graph) svgEdge(w *writer, e *Edge, points []point) {
	from, to := &g.Nodes[e.From], &g.Nodes[e.To]
	classes := []string{"edge"}
	if e.Strict {
		classes = append(classes, "strict")
	}
	switch {
	case to.Missing, from.Cycle > 0 && from.Cycle == to.Cycle:
		classes = append(classes, "wrong")
	case slices.Contains([]manifest.EdgeType{manifest.Controller, manifest.Owner, manifest.Reference, manifest.Action},
		e.Type):
		classes = append(classes, string(e.Type))
	}
	var path strings.Builder
	fmt.Fprintf(&path, "M%d %d", points[0].x, points[0].y)
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		bend := (b.x - a.x) / 2
		switch {
		case a.y == b.y && a.x != b.x:
			fmt.Fprintf(&path, "H%d", b.x)
		case a.x == b.x: // in one column, or at one node
			fmt.Fprintf(&path, "C%d %d %d %d %d %d", a.x+columnGap/2, a.y-4, b.x+columnGap/2, b.y+4, b.x, b.y)
		default:
			fmt.Fprintf(&path, "C%d %d %d %d %d %d", a.x+bend, a.y, b.x-bend, b.y, b.x, b.y)
		}
	}
	title := fmt.Sprintf("%s → %s: %s %s", from.title(), to.title(), e.strength(), e.label())
	if details := e.details(); details != "" {
		title += ", " + details
	}
	w.line(`<path class="%s" data-from="%d" data-to="%d" marker-end="url(#arrow)" d="%s"><title>%s</title></path>`,
		strings.Join(classes, " "), e.From, e.To, path.String(), xmlText(safe(title)))
}

func svgNode(w *writer, i int, n *Node, b box) {
	classes := []string{"node"}
	if n.Missing {
		classes = append(classes, "missing")
	}
	if n.Cycle > 0 {
		classes = append(classes, "wrong")
	}
	if n.Asked {
		classes = append(classes, "asked")
	}
	c := colourOf(n.Resource)
	title := strings.Join(append([]string{n.title()}, n.marks()...), ", ")
	w.line(`<g class="%s" data-node="%d" transform="translate(%d %d)"><title>%s</title>`, strings.Join(classes, " "), i,
		b.x, b.y, xmlText(safe(title)))
	w.line(`<rect width="%d" height="%d" rx="5" fill="%s" stroke="%s"/>`, b.width, boxHeight, c.fill, c.stroke)
	w.line(`<text class="resource" x="10" y="14" style="fill: %s">%s</text><text x="10" y="29">%s</text></g>`,
		c.stroke, xmlText(short(safe(n.Resource), longestText)), xmlText(short(safe(n.label()), longestText)))
}
