package manifest

import (
	"slices"

	"github.com/cleat-dev/cleat/framework/manifest/order"
)

// Cycle is a set of items each of which depends, directly or not, on each other one.
type Cycle struct {
	Items []*Item
	// Broken are the links that Waves disregards: soft ones wherever that is enough.
	Broken []Link
}

// Waves returns the items so that each one comes in a wave after all its strict and soft dependencies, and as early as
// they allow. Beside its links, an item depends on its namespace and on the definition of its resource. Where items
// depend on each other in a cycle, some of the links are disregarded; they are in the cycles. Items and cycles are
// sorted.
func (g *Graph) Waves() ([][]*Item, []Cycle) {
	places := make(map[*Item]int, len(g.items))
	for i, item := range g.items {
		places[item] = i
	}
	var needs order.Needs
	links := make([][]Link, len(g.items)) // to items of the graph
	for i, item := range g.items {
		needs.Item()
		for _, link := range slices.Concat(g.links[item], impliedLinks(item)) {
			if link.Item != nil {
				needs.Add(places[link.Item], link.Strict)
				links[i] = append(links[i], link)
			}
		}
	}
	of, broken := needs.Waves()
	var waves [][]*Item
	for i, item := range g.items {
		for len(waves) <= int(of[i]) {
			waves = append(waves, nil)
		}
		waves[of[i]] = append(waves[of[i]], item)
	}
	cycles := make([]Cycle, len(broken))
	for i, cycle := range broken {
		for _, item := range cycle.Items {
			cycles[i].Items = append(cycles[i].Items, g.items[item])
		}
		for _, b := range cycle.Broken {
			cycles[i].Broken = append(cycles[i].Broken, links[b.Item][b.Need])
		}
	}
	return waves, cycles
}

// impliedLinks returns the links of an item to the definition of its resource and to its namespace.
func impliedLinks(item *Item) []Link {
	implied := func(to Ref, path string) Link {
		return Link{From: item, Edge: Edge{Type: Reference, Strict: true, To: to, Path: path}, Item: item.Manifest.Find(to)}
	}
	links := []Link{implied(definition(item), "apiVersion")}
	if item.Namespace != "" {
		links = append(links, implied(Ref{Resource: "namespaces", Kind: "Namespace", Name: item.Namespace},
			"metadata.namespace"))
	}
	return links
}
