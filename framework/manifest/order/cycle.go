package order

import (
	"cmp"
	"container/heap"
)

// Cycle is a set of items each of which needs, directly or not, each other one, or a single one that needs itself.
type Cycle struct {
	Items []int // sorted
	// Broken are the needs that Waves disregards, by the items that have them: soft ones wherever that is enough.
	Broken []Broken
}

// Broken is a need of an item, by its position among the needs of the item.
type Broken struct{ Item, Need int }

// cycle is the state of the placing of a group. Members are the positions of items in the group.
type cycle struct {
	*Needs
	items   []int32
	numbers []int32 // of each item of the group: its member, from 1; 0 of other items
	waves   []int32

	// Of each member:
	broken  []map[int]bool // needs by their positions; nil for none
	needers [][]needer
	lacks   []lack
	state   []state
}

// needer is a member that needs another one.
type needer struct {
	member int
	strict bool
}

// lack is how many needs of a member are not placed.
type lack struct{ strict, soft int }

type state uint8

const (
	fresh  state = iota
	onPath       // to other members along strict needs
	done         // with its strict needs
	placed
)

// place gives the items of a group their waves. All that the group needs of other groups has been placed.
func (n *Needs) place(group, numbers, waves []int32) Cycle {
	c := &cycle{
		Needs: n, items: group, numbers: numbers, waves: waves, broken: make([]map[int]bool, len(group)),
		needers: make([][]needer, len(group)), lacks: make([]lack, len(group)), state: make([]state, len(group)),
	}
	for member, item := range group {
		numbers[item] = int32(member) + 1 //nolint:gosec // at most as many as items
	}
	c.breakStrict()
	c.placeSoftly()
	made := Cycle{Items: make([]int, len(group))}
	for member, item := range group {
		numbers[item] = 0
		made.Items[member] = int(item)
		for k := range n.of(item) {
			if c.broken[member][k] {
				made.Broken = append(made.Broken, Broken{int(item), k})
			}
		}
	}
	return made
}

// member returns the member that a need leads to, and false if it leads out of the group.
func (c *cycle) member(n need) (int, bool) {
	number := c.numbers[n.to()]
	return int(number) - 1, number != 0
}

// disregard records a need that is disregarded.
func (c *cycle) disregard(member, need int) {
	if c.broken[member] == nil {
		c.broken[member] = map[int]bool{}
	}
	c.broken[member][need] = true
}

// breakStrict disregards those strict needs that lead back to a member on the way to them, so that the others form no
// cycle.
func (c *cycle) breakStrict() {
	for root := range c.items {
		if c.state[root] != fresh {
			continue
		}
		c.state[root] = onPath
		for path := []step{{item: int32(root)}}; len(path) > 0; { //nolint:gosec // a member
			top := &path[len(path)-1]
			member, k := int(top.item), int(top.next)
			needs := c.of(c.items[member])
			if k == len(needs) {
				c.state[member] = done
				path = path[:len(path)-1]
				continue
			}
			top.next++
			to, within := c.member(needs[k])
			if !within || !needs[k].strict() {
				continue
			}
			switch c.state[to] {
			case onPath:
				c.disregard(member, k)
			case fresh:
				c.state[to] = onPath
				path = append(path, step{item: int32(to)}) //nolint:gosec // a member
			}
		}
	}
}

// placeSoftly places the members after what they need strictly. It first takes those with the fewest missing soft
// needs, and disregards these needs.
func (c *cycle) placeSoftly() {
	for member, item := range c.items {
		for k, need := range c.of(item) {
			if to, within := c.member(need); within && !c.broken[member][k] {
				c.count(member, need.strict(), 1)
				c.needers[to] = append(c.needers[to], needer{member, need.strict()})
			}
		}
	}
	var next candidates
	for member := range c.items {
		next.offer(c, member)
	}
	for len(next) > 0 {
		member := next[0].member
		heap.Pop(&next)
		if c.state[member] == placed {
			continue
		}
		item := c.items[member]
		for k, need := range c.of(item) {
			to, within := c.member(need)
			switch {
			case c.broken[member][k]:
			case within && c.state[to] != placed:
				c.disregard(member, k)
			default:
				c.waves[item] = max(c.waves[item], c.waves[need.to()]+1)
			}
		}
		c.state[member] = placed
		for _, by := range c.needers[member] {
			c.count(by.member, by.strict, -1)
			next.offer(c, by.member)
		}
	}
}

func (c *cycle) count(member int, strict bool, change int) {
	if strict {
		c.lacks[member].strict += change
	} else {
		c.lacks[member].soft += change
	}
}

// candidates are a heap of members that can be placed. A member that lacks fewer soft needs than before is there again.
type candidates []candidate

type candidate struct{ member, lacks int }

// offer adds a member if it lacks no strict need and is not placed.
func (c *candidates) offer(of *cycle, member int) {
	if of.lacks[member].strict == 0 && of.state[member] != placed {
		heap.Push(c, candidate{member, of.lacks[member].soft})
	}
}

func (c candidates) Len() int { return len(c) }
func (c candidates) Less(i, j int) bool {
	return cmp.Or(c[i].lacks-c[j].lacks, c[i].member-c[j].member) < 0
}
func (c candidates) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *candidates) Push(x any)   { *c = append(*c, x.(candidate)) } //nolint:forcetypeassert // see offer

func (c *candidates) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}
