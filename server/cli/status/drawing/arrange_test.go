package drawing

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/manifest"
)

// tangle returns n items, each of which depends on up to three others in either direction.
func tangle(n int, random *rand.Rand) []*manifest.Item {
	items := make([]*manifest.Item, n)
	for i := range items {
		var edges []manifest.Edge
		for range random.IntN(4) {
			edges = append(edges, strict("spec.x", "", "pods", "ns", fmt.Sprintf("x-%d", random.IntN(n+3))))
		}
		items[i] = item("", "pods", "Pod", "ns", fmt.Sprintf("x-%d", i), edges...)
	}
	return items
}

func TestBoxesAreApartAndConnected(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	graphs := map[string][]*manifest.Item{"shop": shop(), "capi": clusterAPI(), "crowd": crowd(40)}
	for i := range 20 {
		graphs[fmt.Sprintf("tangle %d", i)] = tangle(1+random.IntN(60), random)
	}
	for name, items := range graphs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := graphOf(t, items...)
			p := arrange(g)
			for i, a := range p.boxes {
				require.Positive(t, a.width)
				require.True(t, a.x >= 0 && a.y >= 0 && a.x+a.width <= p.width && a.y+boxHeight <= p.height,
					"box %d is outside: %v of %v", i, a, p)
				for k, b := range p.boxes[:i] {
					apart := a.x+a.width <= b.x || b.x+b.width <= a.x || a.y+boxHeight <= b.y || b.y+boxHeight <= a.y
					require.True(t, apart, "boxes %d and %d overlap: %v %v", i, k, a, b)
				}
			}
			for i, line := range p.lines {
				for end, node := range map[point]int{line[0]: g.Edges[i].From, line[len(line)-1]: g.Edges[i].To} {
					b := p.boxes[node]
					require.Equal(t, b.y+boxHeight/2, end.y)
					require.Contains(t, []int{b.x, b.x + b.width}, end.x)
				}
				for _, at := range line {
					for node, b := range p.boxes {
						inside := at.x > b.x && at.x < b.x+b.width && at.y > b.y && at.y < b.y+boxHeight
						require.False(t, inside, "edge %d passes through node %d", i, node)
					}
				}
			}
		})
	}
}

func TestLinesOfTreesDoNotCross(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	for range 20 {
		n := 2 + random.IntN(200)
		items := make([]*manifest.Item, n)
		for i, name := range random.Perm(n) {
			items[i] = item("", "pods", "Pod", "ns", fmt.Sprintf("x-%d", name))
			if i > 0 {
				items[i].Edges = []manifest.Edge{strict("spec.x", "", "pods", "ns", items[random.IntN(i)].Name)}
			}
		}
		a := &arranger{graph: graphOf(t, items...)}
		a.of, a.chains = make([]int, len(a.graph.Nodes)), make([][]int, len(a.graph.Edges))
		a.placeNodes()
		a.placeEdges()
		require.GreaterOrEqual(t, a.crossings(), 0)
		a.order()
		require.Zero(t, a.crossings())
	}
}

// An exchange of neighbours never makes more lines cross, and the best of the sweeps is kept.
func TestOrderLessensCrossings(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 8))
	for range 10 {
		a := &arranger{graph: graphOf(t, tangle(60, random)...)}
		a.of, a.chains = make([]int, len(a.graph.Nodes)), make([][]int, len(a.graph.Edges))
		a.placeNodes()
		a.placeEdges()
		before := a.crossings()
		a.swap()
		swapped := a.crossings()
		require.Less(t, swapped, before)
		a.order()
		require.LessOrEqual(t, a.crossings(), swapped)
	}
}
