package drawing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cleat-dev/cleat/framework/manifest"
)

// Graph is a drawing: items of a backup, their dependencies, and missing dependencies.
type Graph struct {
	Title string   `json:"title"`
	Notes []string `json:"notes,omitempty"` // omissions and mistakes of the graph
	Nodes []Node   `json:"nodes"`
	Edges []Edge   `json:"edges"` // by From, To
}

// Node is an item, or several of one resource.
type Node struct {
	Resource  string `json:"resource"` // "deployments.apps"
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	UID       string `json:"uid,omitempty"`
	// Items is the number of items of a node that represents several.
	Items int `json:"items,omitempty"`
	// Wave is the position of the item in the order of creation: after all items of lower waves. The first is 0.
	Wave int `json:"wave"`
	// Missing is set if the item is not in the backup.
	Missing bool `json:"missing,omitempty"`
	// Cycle is the number of a cycle, if the item depends on itself through others.
	Cycle int `json:"cycle,omitempty"`
	// Asked is set if the user has asked for this item.
	Asked bool `json:"asked,omitempty"`
}

// Edge is what one node depends on.
type Edge struct {
	From   int               `json:"from"` // indexes of nodes
	To     int               `json:"to"`
	Type   manifest.EdgeType `json:"type"`
	Strict bool              `json:"strict,omitempty"`
	// Paths are the fields in which the dependency was found.
	Paths  []string `json:"paths,omitempty"`
	Plugin string   `json:"plugin,omitempty"` // of an action
	// Items is the number of dependencies of an edge that represents several.
	Items int `json:"items,omitempty"`
}

// title returns what identifies the node: "deployments.apps/shop/web".
func (n *Node) title() string {
	if n.Items > 0 {
		return n.Resource + ", " + n.label()
	}
	return n.Resource + "/" + n.label()
}

// label identifies the node among the nodes of its resource.
func (n *Node) label() string {
	switch {
	case n.Items > 0 && n.Namespace != "":
		return fmt.Sprintf("%d in %s", n.Items, n.Namespace)
	case n.Items > 0:
		return count(n.Items, "item", "items")
	case n.Namespace != "":
		return n.Namespace + "/" + n.Name
	default:
		return n.Name
	}
}

// marks returns the special properties of the node, as short texts.
func (n *Node) marks() []string {
	var marks []string
	if n.Missing {
		marks = append(marks, "not in the backup")
	}
	if n.Cycle > 0 {
		marks = append(marks, "in a cycle")
	}
	return marks
}

// strength returns "strict" or "soft".
func (e *Edge) strength() string {
	if e.Strict {
		return "strict"
	}
	return "soft"
}

// label describes the dependency: "controller", "2 references".
func (e *Edge) label() string {
	if e.Items > 1 {
		return fmt.Sprintf("%d %ss", e.Items, e.Type)
	}
	return string(e.Type)
}

// details returns where the dependency comes from.
func (e *Edge) details() string {
	switch {
	case e.Plugin != "":
		return "by " + e.Plugin
	case len(e.Paths) > 3:
		return fmt.Sprintf("%s and %d more fields", strings.Join(e.Paths[:3], ", "), len(e.Paths)-3)
	default:
		return strings.Join(e.Paths, ", ")
	}
}

// sort puts the edges in order and joins edges that differ in their paths only.
func (g *Graph) sort() {
	key := func(a, b Edge) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Type, b.Type),
			-cmp.Compare(a.strength(), b.strength()), cmp.Compare(a.Plugin, b.Plugin))
	}
	slices.SortStableFunc(g.Edges, key)
	joined := g.Edges[:0]
	for _, e := range g.Edges {
		if last := len(joined) - 1; last >= 0 && key(joined[last], e) == 0 {
			joined[last].Paths = append(joined[last].Paths, e.Paths...)
			joined[last].Items += e.Items
			continue
		}
		joined = append(joined, e)
	}
	g.Edges = joined
}
