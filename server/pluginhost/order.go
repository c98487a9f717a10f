package pluginhost

import (
	"fmt"
	"maps"
	"slices"
)

// everyOther stands in an order for all names that are not in it.
const everyOther = "*"

// order is in which order plugins run, as far as that is configured.
type order struct {
	rank   map[string]int
	others int // rank of the names that are not in the order
}

// newOrder reads Config.Order.
func newOrder(names []string) (order, error) {
	o := order{rank: map[string]int{}, others: len(names)}
	seen := map[string]bool{}
	for i, name := range names {
		if name != everyOther {
			name = canonical(name)
		}
		if seen[name] {
			return order{}, fmt.Errorf("order of plugins: %q comes twice", name)
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

// of is the place of a name: lower runs earlier, names of equal place as they were found.
func (o order) of(name string) int {
	if rank, named := o.rank[name]; named {
		return rank
	}
	return o.others
}

// absent are the names of the order that no plugin has, sorted.
func (o order) absent(c *catalog) []string {
	left := maps.Clone(o.rank)
	for _, r := range c.rows {
		delete(left, r.Name)
	}
	return slices.Sorted(maps.Keys(left))
}
