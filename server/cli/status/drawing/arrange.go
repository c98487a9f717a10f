package drawing

import (
	"cmp"
	"math"
	"unicode/utf8"
)

// Sizes of a picture in pixels.
const (
	margin      = 24
	boxHeight   = 36
	rowGap      = 12
	columnGap   = 110
	charWidth   = 7 // of the font at its size in the style
	boxPadding  = 20
	longestText = 44 // characters
	lineHeight  = 18
	sweeps      = 12
)

type point struct{ x, y int }

// box is where a node is drawn.
type box struct{ x, y, width int }

// places is where everything is drawn. All numbers are integers, so that the picture is the same on any machine.
type places struct {
	boxes         []box
	lines         [][]point // of each edge, from its node to the other one
	width, height int
	alone         int // where the nodes without any edge begin; 0 if there are none
}

// vertex is a node in its column, or the point where a long edge passes through a column.
type vertex struct {
	column int
	node   int // -1 for an edge
	y      int
	left   []int // vertices in neighbouring columns
	right  []int
}

// arranger puts nodes into columns, dependents to the left of their dependencies, in an order with few crossings.
type arranger struct {
	graph    *Graph
	vertices []vertex
	of       []int   // vertex of each node; -1 for one without edges
	chains   [][]int // vertices of each edge
	columns  [][]int // vertices
	widths   []int
}

// arrange returns where the nodes and edges of g are drawn.
func arrange(g *Graph) *places {
	a := &arranger{graph: g, of: make([]int, len(g.Nodes)), chains: make([][]int, len(g.Edges))}
	a.placeNodes()
	a.placeEdges()
	a.order()
	a.stack()
	for i := range sweeps {
		a.align(i%2 == 0)
	}
	return a.draw()
}

// placeNodes makes the vertices of the nodes that have edges.
func (a *arranger) placeNodes() {
	connected := make([]bool, len(a.graph.Nodes))
	levels := make([]int, len(a.graph.Nodes))
	for i := range a.graph.Nodes {
		levels[i] = a.graph.Nodes[i].Wave + 1
		if a.graph.Nodes[i].Missing {
			levels[i] = math.MaxInt
		}
	}
	for i := range a.graph.Edges {
		e := &a.graph.Edges[i]
		connected[e.From], connected[e.To] = true, true
		if a.graph.Nodes[e.To].Missing { // next to the first that needs it
			levels[e.To] = min(levels[e.To], levels[e.From]-1)
		}
	}
	lowest, highest := math.MaxInt, -1
	for i, level := range levels {
		if connected[i] {
			lowest, highest = min(lowest, level), max(highest, level)
		}
	}
	if highest >= 0 {
		a.columns, a.widths = make([][]int, highest-lowest+1), make([]int, highest-lowest+1)
	}
	for i := range a.graph.Nodes {
		a.of[i] = -1
		if connected[i] {
			a.of[i] = a.add(vertex{column: highest - levels[i], node: i})
			a.widths[highest-levels[i]] = max(a.widths[highest-levels[i]], boxWidth(&a.graph.Nodes[i]))
		}
	}
}

func (a *arranger) add(v vertex) int {
	a.vertices = append(a.vertices, v)
	a.columns[v.column] = append(a.columns[v.column], len(a.vertices)-1)
	return len(a.vertices) - 1
}

// placeEdges makes the vertices by which edges pass through columns.
func (a *arranger) placeEdges() {
	for i := range a.graph.Edges {
		from, to := a.of[a.graph.Edges[i].From], a.of[a.graph.Edges[i].To]
		chain := []int{from}
		step := cmp.Compare(a.vertices[to].column, a.vertices[from].column)
		for column := a.vertices[from].column + step; step != 0 && column != a.vertices[to].column; column += step {
			chain = append(chain, a.add(vertex{column: column, node: -1}))
		}
		chain = append(chain, to)
		for k := 1; k < len(chain) && step != 0; k++ {
			left, right := chain[k-1], chain[k]
			if step < 0 {
				left, right = right, left
			}
			a.vertices[left].right = append(a.vertices[left].right, right)
			a.vertices[right].left = append(a.vertices[right].left, left)
		}
		a.chains[i] = chain
	}
}

// neighbours calls visit for each column, from the left or from the right, and passes the neighbours of a vertex in the
// column before.
func (a *arranger) neighbours(fromLeft bool, visit func(column []int, before func(vertex int) []int)) {
	for i := range a.columns {
		if fromLeft {
			visit(a.columns[i], func(v int) []int { return a.vertices[v].left })
		} else {
			visit(a.columns[len(a.columns)-1-i], func(v int) []int { return a.vertices[v].right })
		}
	}
}

// space returns how much room a vertex needs.
func (a *arranger) space(v int) int {
	if a.vertices[v].node < 0 {
		return rowGap
	}
	return boxHeight + rowGap
}

// stack puts the vertices of each column below each other.
func (a *arranger) stack() {
	for _, column := range a.columns {
		y := 0
		for _, v := range column {
			a.vertices[v].y = y + a.space(v)/2
			y += a.space(v)
		}
	}
}

// align moves the vertices of each column towards their neighbours, as near as their order and their size allow: the
// sum of the squares of what is left is the least. Vertices that push each other move together.
func (a *arranger) align(fromLeft bool) {
	a.neighbours(fromLeft, func(column []int, before func(int) []int) {
		var groups []together
		below := 0 // what the vertex is below the first one if all touch
		for i, v := range column {
			if i > 0 {
				below += (a.space(column[i-1]) + a.space(v)) / 2
			}
			wanted := a.vertices[v].y
			if around := before(v); len(around) > 0 {
				wanted = 0
				for _, n := range around {
					wanted += a.vertices[n].y
				}
				wanted /= len(around)
			}
			groups = append(groups, together{sum: wanted - below, size: 1})
			for k := len(groups) - 1; k > 0 && groups[k-1].mean() >= groups[k].mean(); k-- {
				groups[k-1].sum += groups[k].sum
				groups[k-1].size += groups[k].size
				groups = groups[:k]
			}
		}
		i, below := 0, 0
		for _, g := range groups {
			for range g.size {
				if i > 0 {
					below += (a.space(column[i-1]) + a.space(column[i])) / 2
				}
				a.vertices[column[i]].y = g.mean() + below
				i++
			}
		}
	})
}

// together is some vertices that touch each other: the sum of the places that they want for the first.
type together struct{ sum, size int }

func (t together) mean() int { return t.sum / t.size }

// draw returns the coordinates of nodes and edges.
func (a *arranger) draw() *places {
	p := &places{boxes: make([]box, len(a.graph.Nodes)), lines: make([][]point, len(a.graph.Edges)), width: margin}
	top, bottom := 0, 0
	for i, v := range a.vertices {
		if i == 0 || v.y-a.space(i)/2 < top {
			top = v.y - a.space(i)/2
		}
	}
	starts := make([]int, len(a.columns))
	for i, width := range a.widths {
		starts[i] = p.width
		p.width += width + columnGap
	}
	if len(a.columns) > 0 {
		p.width += margin - columnGap
	}
	for i := range a.vertices {
		v := &a.vertices[i]
		v.y += margin - top
		bottom = max(bottom, v.y+a.space(i)/2)
		if v.node >= 0 {
			p.boxes[v.node] = box{x: starts[v.column], y: v.y - boxHeight/2, width: a.widths[v.column]}
		}
	}
	for i, chain := range a.chains {
		for k, v := range chain {
			left := point{starts[a.vertices[v].column], a.vertices[v].y}
			right := point{left.x + a.widths[a.vertices[v].column], left.y}
			leftwards := a.vertices[chain[len(chain)-1]].column < a.vertices[chain[0]].column
			switch {
			case k == 0 && leftwards:
				p.lines[i] = append(p.lines[i], left)
			case k == 0:
				p.lines[i] = append(p.lines[i], right)
			case k < len(chain)-1 && leftwards:
				p.lines[i] = append(p.lines[i], right, left)
			case k < len(chain)-1:
				p.lines[i] = append(p.lines[i], left, right)
			case leftwards || a.vertices[v].column == a.vertices[chain[0]].column:
				// in one column, the edge is a loop at the right
				p.lines[i] = append(p.lines[i], right)
			default:
				p.lines[i] = append(p.lines[i], left)
			}
		}
	}
	p.height = bottom + margin
	a.drawAlone(p)
	return p
}

// drawAlone puts the nodes without edges into a grid below the others.
func (a *arranger) drawAlone(p *places) {
	const narrowest = 1200 // pixels
	width, alone := 0, 0
	for i, v := range a.of {
		if v < 0 {
			alone++
			width = max(width, boxWidth(&a.graph.Nodes[i]))
		}
	}
	if alone == 0 {
		return
	}
	p.alone = p.height + lineHeight
	perRow := max(1, (max(p.width, narrowest)-2*margin+rowGap)/(width+rowGap))
	k := 0
	for i, v := range a.of {
		if v >= 0 {
			continue
		}
		p.boxes[i] = box{
			x: margin + k%perRow*(width+rowGap), y: p.alone + lineHeight + k/perRow*(boxHeight+rowGap), width: width,
		}
		p.width = max(p.width, p.boxes[i].x+width+margin)
		p.height = p.boxes[i].y + boxHeight + margin
		k++
	}
}

func boxWidth(n *Node) int {
	return charWidth*max(utf8.RuneCountInString(short(safe(n.Resource), longestText)),
		utf8.RuneCountInString(short(safe(n.label()), longestText))) + boxPadding
}
