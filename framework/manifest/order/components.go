package order

import "slices"

// step is an item on a path, and which of its needs is followed next.
type step struct {
	item int32
	next uint32
}

// groups calls found with the items in groups within which each needs each (Tarjan's strongly connected components).
// Each group comes after those that it needs, its items sorted. numbers is memory for a number of each item of the
// group, which is 0 then; found must leave 0 there. A chain of needs may be as long as the items are many, so groups
// does not recurse.
func (n *Needs) groups(found func(group, numbers []int32)) {
	var (
		visit  = make([]int32, n.Len()) // the number of the first visit, from 1; closed if the item has a group
		lowest = make([]int32, n.Len()) // visit that can be reached; 0 if the item has a group
		open   []int32                  // items without a group, in the order of their visits
		path   []step
		visits int32
	)
	const closed = -1
	for root := range visit {
		if visit[root] != 0 {
			continue
		}
		for path = append(path[:0], step{item: int32(root)}); len(path) > 0; { //nolint:gosec // an item
			top := &path[len(path)-1]
			i := top.item
			if visit[i] == 0 {
				visits++
				visit[i], lowest[i] = visits, visits
				open = append(open, i)
			}
			if needs := n.of(i); int(top.next) < len(needs) {
				to := needs[top.next].to()
				top.next++
				switch {
				case visit[to] == 0:
					path = append(path, step{item: to})
				case visit[to] != closed:
					lowest[i] = min(lowest[i], visit[to])
				}
				continue
			}
			path = path[:len(path)-1]
			if len(path) > 0 {
				above := path[len(path)-1].item
				lowest[above] = min(lowest[above], lowest[i])
			}
			if lowest[i] < visit[i] {
				continue
			}
			begin := len(open) - 1
			for open[begin] != i {
				begin--
			}
			group := open[begin:]
			slices.Sort(group)
			for _, member := range group {
				visit[member], lowest[member] = closed, 0
			}
			found(group, lowest)
			open = open[:begin]
		}
	}
}
