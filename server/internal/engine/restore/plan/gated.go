package plan

import (
	"slices"

	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
)

// gating adds the edges of the gates, so that they form no cycle: an item that serves a gate, or that such an item
// needs, does not wait for the gate.
type gating struct {
	*Order
	first   []int  // of each item: the position of its first edge
	done    int    // how many gates have their edges
	reached []bool // items that serve a gate, directly or not
	path    []int32
	added   []edge
}

// addGates adds the edges of all gates. Edges are sorted before and after.
func (o *Order) addGates() {
	if len(o.gates) == 0 {
		return
	}
	g := &gating{Order: o, first: o.firstEdges(), reached: make([]bool, o.Len())}
	for i := range o.gates {
		slices.Sort(o.gates[i].waiting)
		o.gates[i].waiting = slices.Compact(o.gates[i].waiting)
		g.add(&o.gates[i])
		g.done++
	}
	g.addNamespaces()
	o.edges = append(o.edges, g.added...)
	o.sortEdges()
}

// add adds the edges of a gate.
func (g *gating) add(one *gate) {
	serving := g.reach(one)
	var kept, broken []int32
	for _, item := range one.waiting {
		if g.reached[item] {
			broken = append(broken, item)
		} else if item != one.item {
			kept = append(kept, item)
		}
	}
	for _, item := range serving {
		g.reached[item] = false
	}
	if one.definition {
		g.addDefinition(one, broken)
		return
	}
	one.waiting = kept
	for _, item := range kept {
		g.added = append(g.added, edge{item, one.item, true})
	}
	for _, backend := range one.backends {
		g.added = append(g.added, edge{one.item, backend, true})
	}
	if len(broken) > 0 {
		g.report(broken, one.item)
	}
}

// addDefinition adds the edges of a definition, which its custom resources always need. If they serve it, they do not
// wait for its conversion webhook.
func (g *gating) addDefinition(one *gate, broken []int32) {
	for _, item := range one.waiting {
		g.added = append(g.added, edge{item, one.item, true})
	}
	switch {
	case len(broken) > 0:
		g.report(broken, one.backends[0])
		one.backends = nil
	case len(one.services) > 0:
		if g.converted == nil {
			g.converted = map[int]bool{}
		}
		g.converted[int(one.item)] = true
	}
}

// report records items that do not wait for another one.
func (g *gating) report(broken []int32, of int32) {
	awaited := g.Item(int(of))
	cycle := Cycle{Items: []archive.Entry{awaited}}
	for _, item := range broken {
		waiting := g.Item(int(item))
		cycle.Items = append(cycle.Items, waiting)
		cycle.Broken = append(cycle.Broken, [2]archive.Entry{waiting, awaited})
	}
	g.Cycles = append(g.Cycles, cycle)
}

// reach marks the items that serve a gate, or that these need in any way, and returns them.
func (g *gating) reach(one *gate) []int32 {
	g.path = g.path[:0]
	g.visit(one.backends...)
	for i := 0; i < len(g.path); i++ {
		item := g.path[i]
		for _, e := range g.edges[g.first[item]:g.first[item+1]] {
			g.visit(e.to)
		}
		if namespace, found := g.namespaceOf(item); found {
			g.visit(namespace)
		}
		for k := range g.done {
			other := &g.gates[k]
			if _, waits := slices.BinarySearch(other.waiting, item); waits {
				g.visit(other.item)
			}
			if other.item == item {
				g.visit(other.backends...)
			}
		}
	}
	return g.path
}

func (g *gating) visit(items ...int32) {
	for _, item := range items {
		if !g.reached[item] {
			g.reached[item] = true
			g.path = append(g.path, item)
		}
	}
}

// namespaceOf returns the item of the namespace of another item.
func (g *gating) namespaceOf(item int32) (int32, bool) {
	namespace := g.Item(int(item)).Namespace
	if namespace == "" {
		return 0, false
	}
	at, found := g.Position(archive.Entry{GroupResource: namespacesResource, Name: namespace})
	return int32(at), found //nolint:gosec // order.MaxItems
}

// addNamespaces makes the items of a namespace wait for it, if it waits for a gate.
func (g *gating) addNamespaces() {
	begin, end := g.Span(namespacesResource)
	waiting := map[int32]bool{}
	for i := range g.gates {
		for _, item := range g.gates[i].waiting {
			if int(item) >= begin && int(item) < end {
				waiting[item] = true
			}
		}
	}
	if len(waiting) == 0 {
		return
	}
	for i := range g.Len() {
		item := int32(i) //nolint:gosec // order.MaxItems
		if namespace, found := g.namespaceOf(item); found && waiting[namespace] {
			g.added = append(g.added, edge{item, namespace, true})
		}
	}
}
