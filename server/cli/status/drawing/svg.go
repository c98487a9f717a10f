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

// Style is the style sheet of pictures, in light and in dark.
//
//go:embed picture.css
var Style string

// fills are the colours of resources in light, as in Style, which has a class for each.
var fills = []string{"#e3f2fd", "#e8f5e9", "#fff3e0", "#f3e5f5", "#e0f7fa", "#fce4ec", "#f9fbe7", "#ede7f6", "#e0f2f1",
	"#fffde7", "#eceff1", "#efebe9"}

// colourOf returns the colour of a resource, the same in all pictures, as the number of a class.
func colourOf(resource string) int {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(resource)) // a hash does not fail
	return int(hash.Sum32() % uint32(len(fills)))
}

// SVG writes the graph as a picture that needs no other file.
func (g *Graph) SVG(out io.Writer) error {
	w := &writer{w: out}
	w.line(`<?xml version="1.0" encoding="UTF-8"?>`)
	g.svg(w, picture{style: true})
	return w.failed
}

// Fragment writes the graph as an element svg for a page that has Style, and no style or script of its own. The nodes
// for which link returns an address are links to it; link may be nil.
func (g *Graph) Fragment(out io.Writer, link func(*Node) string) error {
	w := &writer{w: out}
	g.svg(w, picture{link: link})
	return w.failed
}

// picture is how a picture is written.
type picture struct {
	style bool // with its own style sheet
	link  func(*Node) string
}

func (g *Graph) svg(w *writer, how picture) {
	p := arrange(g)
	head := slices.Concat([]string{g.Title}, g.Notes)
	above := margin + len(head)*lineHeight + lineHeight // with the legend
	width := max(p.width, 840)                          // of the legend
	for _, text := range head {
		width = max(width, 2*margin+len(safe(text))*charWidth)
	}
	role := "img"
	if how.link != nil { // whose links are not parts of an image
		role = "graphics-document group" // a style sheet may stretch what is a group alone
	}
	w.line(`<svg xmlns="http://www.w3.org/2000/svg" class="graph" width="%d" height="%d" viewBox="0 0 %d %d" role="%s" `+
		`aria-label="%s">`, width, above+p.height, width, above+p.height, role, xmlText(safe(g.Title)))
	w.line("<title>%s</title>", xmlText(safe(g.Title)))
	w.line("<desc>%s and %s between them, each with a title.</desc>", count(len(g.Nodes), "box", "boxes"),
		count(len(g.Edges), "line", "lines"))
	if how.style {
		w.line("<style>\n%s</style>", Style)
	}
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
		svgNode(w, i, &g.Nodes[i], p.boxes[i], how.link)
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

func svgNode(w *writer, i int, n *Node, b box, link func(*Node) string) {
	classes := []string{"node", fmt.Sprintf("colour-%d", colourOf(n.Resource))}
	if n.Missing {
		classes = append(classes, "missing")
	}
	if n.Cycle > 0 {
		classes = append(classes, "wrong")
	}
	if n.Asked {
		classes = append(classes, "asked")
	}
	begin, end := "", ""
	if link != nil {
		if address := link(n); address != "" {
			begin, end = fmt.Sprintf(`<a href="%s">`, xmlText(address)), "</a>"
		}
	}
	title := strings.Join(append([]string{n.title()}, n.marks()...), ", ")
	w.line(`<g class="%s" data-node="%d" transform="translate(%d %d)">%s<title>%s</title>`, strings.Join(classes, " "), i,
		b.x, b.y, begin, xmlText(safe(title)))
	w.line(`<rect width="%d" height="%d" rx="5"/>`, b.width, boxHeight)
	w.line(`<text class="resource" x="10" y="14">%s</text><text x="10" y="29">%s</text>%s</g>`,
		xmlText(short(safe(n.Resource), longestText)), xmlText(short(safe(n.label()), longestText)), end)
}
