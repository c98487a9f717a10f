package pluginhost

import (
	"fmt"
	"maps"
	"slices"
)

// everyOther is the name in an order that stands for all names that are not in it.
const everyOther = "*"

// order is the configured order in which plugins run.
type order struct {
	rank   map[string]int
	others int // rank of the names that are not in the order
}

// newOrder parses Config.Order.
func newOrder(names []string) (order, error) {
	o := order{rank: map[string]int{}, others: len(names)}
	seen := map[string]bool{}
	for i, name := range names {
		if name != everyOther {
			name = canonical(name)
		}
		if seen[name] {
			return order{}, fmt.Errorf("order of plugins: %q is listed twice", name)
		}
		seen[name] = true
		if name == everyOther {
			o.others = i
		} else {
			o.rank[name] = i
		}
	}
	return o, nil
}

// of returns the rank of a name. Lower ranks run earlier; names of equal rank run in the order in which they were
// found.
func (o order) of(name string) int {
	if rank, named := o.rank[name]; named {
		return rank
	}
	return o.others
}

// absent returns the names of the order that no plugin has, sorted.
func (o order) absent(c *catalog) []string {
	left := maps.Clone(o.rank)
	for _, r := range c.rows {
		delete(left, r.Name)
	}
	return slices.Sorted(maps.Keys(left))
}
