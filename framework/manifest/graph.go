package manifest

import "slices"

// Graph is how the items of a manifest depend on each other. It can be used concurrently.
type Graph struct {
	items     []*Item // sorted
	links     map[*Item][]Link
	referrers map[*Item][]Link
}

// Link is a dependency of an item.
type Link struct {
	From *Item
	Edge
	// Item is the target of the edge, or nil if it is not in the manifest.
	Item *Item
}

// Graph returns the graph of the items that are in the manifest now.
func (m *Manifest) Graph() *Graph {
	g := &Graph{items: slices.Collect(m.Items()), links: map[*Item][]Link{}, referrers: map[*Item][]Link{}}
	for _, item := range g.items {
		g.links[item] = linksOf(item)
		for _, link := range g.links[item] {
			if link.Item != nil {
				g.referrers[link.Item] = append(g.referrers[link.Item], link)
			}
		}
	}
	return g
}

// linksOf returns the edges of an item, and one for each owner for which there is none.
func linksOf(item *Item) []Link {
	var links []Link
	owned := map[string]bool{}
	for _, edge := range item.Edges {
		if edge.Type == More {
			continue
		}
		links = append(links, Link{From: item, Edge: edge, Item: item.Manifest.Find(edge.To)})
		owned[edge.To.UID] = true
	}
	for _, uid := range item.OwnerUIDs {
		if !owned[uid] {
			links = append(links, ownerLink(item, uid))
		}
	}
	return links
}

func ownerLink(item *Item, uid string) Link {
	link := Link{From: item, Edge: Edge{Type: Owner, To: Ref{UID: uid}, Path: "metadata.ownerReferences"},
		Item: item.Manifest.Index[uid]}
	if link.Item != nil {
		link.To = link.Item.Ref()
	}
	return link
}

// Items returns all items by group, resource, namespace, name and version.
func (g *Graph) Items() []*Item { return slices.Clone(g.items) }

// Links returns what an item depends on, in the order of its edges.
func (g *Graph) Links(item *Item) []Link { return slices.Clone(g.links[item]) }

// Referrers returns the links that lead to an item, in the order of the items that they come from.
func (g *Graph) Referrers(item *Item) []Link { return slices.Clone(g.referrers[item]) }

// Step is one item of the chain by which an item came into a backup.
type Step struct {
	Ref      Ref
	Item     *Item // nil if it is not in the manifest
	Included Inclusion
}

// Why returns the chain by which an item came into the backup: the item, the one for which it was requested, and so on,
// to one that was not requested for another, that is not in the manifest, or that was passed already.
func Why(item *Item) []Step {
	var chain []Step
	passed := map[*Item]bool{}
	for {
		chain = append(chain, Step{Ref: item.Ref(), Item: item, Included: item.Included})
		passed[item] = true
		of := item.Included.Of
		if of == nil {
			return chain
		}
		next := item.Manifest.Find(*of)
		if next == nil || passed[next] {
			return append(chain, Step{Ref: *of, Item: next})
		}
		item = next
	}
}
