package manifest

import "slices"

// Cycle is a set of items each of which depends, directly or not, on each other one.
type Cycle struct {
	Items []*Item
	// Broken are the links that Waves disregards: soft ones wherever that is enough.
	Broken []Link
}

// Waves returns the items so that each one comes in a wave after all that it depends on, strictly or not, and as early
// as that allows. Beside its links, an item depends on its namespace and on the definition of its resource. Where items
// depend on each other in a cycle, some of the links are disregarded; the cycles say which. Items and cycles are
// sorted.
func (g *Graph) Waves() ([][]*Item, []Cycle) {
	p := newPlan(g)
	var cycles []Cycle
	for _, group := range p.groups() { // from what is needed to what needs it
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
