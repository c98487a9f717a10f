package drawing

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cleat-dev/cleat/framework/manifest"
)

// Options select the contents of a graph.
type Options struct {
	Title string
	// Graph is the graph of the whole manifest.
	Graph *manifest.Graph
	// Items are the shown items.
	Items []*manifest.Item
	// Asked is the item that the user has asked for; may be nil.
	Asked *manifest.Item
	// Closed is set if nothing is shown but Items, and how they depend on each other.
	Closed bool
}

// New returns the graph of some items.
func New(o Options) *Graph {
	g := &Graph{Title: o.Title, Nodes: []Node{}, Edges: []Edge{}}
	places := make(map[*manifest.Item]int, len(o.Items))
	for _, item := range o.Items {
		places[item] = 0
	}
	waves, cycles := o.Graph.Waves()
	inCycle := map[*manifest.Item]int{}
	told := 0
	for i, cycle := range cycles {
		for _, item := range cycle.Items {
			inCycle[item] = i + 1
		}
		if slices.ContainsFunc(cycle.Items, func(item *manifest.Item) bool { _, shown := places[item]; return shown }) {
			if told++; told <= most {
				g.Notes = append(g.Notes, fmt.Sprintf("A cycle of %s: %s.", count(len(cycle.Items), "item", "items"),
					names(cycle.Items)))
			}
		}
	}
	if told > most {
		g.Notes = append(g.Notes, fmt.Sprintf("%s more.", count(told-most, "cycle", "cycles")))
	}
	waveOf := map[*manifest.Item]int{}
	for wave, items := range waves {
		for _, item := range items {
			waveOf[item] = wave
		}
	}
	for _, item := range o.Graph.Items() {
		if _, shown := places[item]; !shown {
			continue
		}
		places[item] = len(g.Nodes)
		g.Nodes = append(g.Nodes, Node{
			Resource: resourceOf(item.Ref()), Namespace: item.Namespace, Name: item.Name, UID: item.UID,
			Wave: waveOf[item], Cycle: inCycle[item], Asked: item == o.Asked,
		})
	}
	g.addEdges(o, places)
	return g
}

// addEdges adds the edges between nodes, and nodes for missing items.
func (g *Graph) addEdges(o Options, places map[*manifest.Item]int) {
	missing := map[manifest.Ref]int{}
	left := 0
	for _, item := range o.Graph.Items() {
		from, shown := places[item]
		if !shown {
			continue
		}
		for _, link := range o.Graph.Links(item) {
			to, ok := places[link.Item]
			switch {
			case o.Closed && !ok:
				continue
			case link.Item == nil:
				if to, ok = missing[link.To]; !ok {
					to = len(g.Nodes)
					missing[link.To] = to
					g.Nodes = append(g.Nodes, missingNode(link.To))
				}
			case !ok:
				left++
				continue
			}
			e := Edge{From: from, To: to, Type: link.Type, Strict: link.Strict, Plugin: link.Plugin, Items: 1}
			if link.Path != "" {
				e.Paths = []string{link.Path}
			}
			g.Edges = append(g.Edges, e)
		}
	}
	if left > 0 {
		g.Notes = append(g.Notes, fmt.Sprintf("%s to other items of the backup left out.",
			count(left, "dependency", "dependencies")))
	}
	if len(missing) > 0 {
		g.Notes = append(g.Notes, fmt.Sprintf("%s not in the backup.", count(len(missing), "object that items depend on is",
			"objects that items depend on are")))
	}
	g.sort()
}

func missingNode(ref manifest.Ref) Node {
	n := Node{Resource: cmp.Or(resourceOf(ref), "unknown"), Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID,
		Missing: true}
	if n.Name == "" {
		n.Name = "uid " + ref.UID
	}
	return n
}

func count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// most is how many items a note names, and how many cycles have one.
const most = 5

func names(items []*manifest.Item) string {
	text := ""
	for i, item := range items[:min(len(items), most)] {
		if i > 0 {
			text += ", "
		}
		text += safe((&Node{Resource: resourceOf(item.Ref()), Namespace: item.Namespace, Name: item.Name}).title())
	}
	if left := len(items) - most; left > 0 {
		text += fmt.Sprintf(" and %d more", left)
	}
	return text
}

// resourceOf returns the resource, or else the kind, with the group: "deployments.apps".
func resourceOf(ref manifest.Ref) string {
	name := cmp.Or(ref.Resource, ref.Kind)
	if name != "" && ref.Group != "" {
		name += "." + ref.Group
	}
	return name
}

// Collapse returns the graph if it has at most limit nodes. Otherwise it returns one with a node for the items of each
// resource and namespace or, if these are too many, of each resource, and a note says so.
func (g *Graph) Collapse(limit int) *Graph {
	if len(g.Nodes) <= limit {
		return g
	}
	collapsed := g.group(func(n Node) Node {
		return Node{Resource: n.Resource, Namespace: n.Namespace, Missing: n.Missing}
	})
	by := "resource and namespace"
	if len(collapsed.Nodes) > limit {
		collapsed, by = g.group(func(n Node) Node { return Node{Resource: n.Resource, Missing: n.Missing} }), "resource"
	}
	collapsed.Notes = append([]string{fmt.Sprintf("%d objects are more than %d, so each box stands for those of one %s.",
		len(g.Nodes), limit, by)}, g.Notes...)
	return collapsed
}

// group returns the graph of the groups to which of assigns the nodes.
func (g *Graph) group(of func(Node) Node) *Graph {
	groups := &Graph{Title: g.Title}
	places := map[Node]int{}
	at := make([]int, len(g.Nodes))
	for i, n := range g.Nodes {
		key := of(n)
		place, ok := places[key]
		if !ok {
			place = len(groups.Nodes)
			places[key] = place
			groups.Nodes = append(groups.Nodes, key)
		}
		at[i] = place
		node := &groups.Nodes[place]
		node.Items++
		node.Wave, node.Cycle, node.Asked = max(node.Wave, n.Wave), max(node.Cycle, n.Cycle), node.Asked || n.Asked
	}
	for _, e := range g.Edges {
		e.From, e.To, e.Paths = at[e.From], at[e.To], nil
		groups.Edges = append(groups.Edges, e)
	}
	groups.sort()
	return groups
}
