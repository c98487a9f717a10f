package manifest

import "slices"

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
	p := newPlan(g)
	var cycles []Cycle
	for _, group := range p.groups() { // from dependencies to dependents
		if cycle := p.place(group); cycle != nil {
			cycles = append(cycles, *cycle)
		}
	}
	var waves [][]*Item
	for i, item := range g.items {
		for len(waves) <= p.wave[i] {
			waves = append(waves, nil)
		}
		waves[p.wave[i]] = append(waves[p.wave[i]], item)
	}
	slices.SortFunc(cycles, func(a, b Cycle) int { return compareItems(a.Items[0], b.Items[0]) })
	return waves, cycles
}
