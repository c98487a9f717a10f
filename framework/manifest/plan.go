package manifest

import (
	"cmp"
	"container/heap"
	"slices"
)

// plan gives each item of a graph its wave. It identifies items by their positions in the graph, and does not recurse,
// because a chain of dependencies may be as long as a manifest.
type plan struct {
	items []*Item

	// Of each item:
	needs   [][]need
	needers [][]needer // in its group
	group   []int      // number of its group, from 1
	lacks   []lack
	state   []state
	wave    []int
}

// need is a link to another item.
type need struct {
	to     int
	link   Link
	broken bool
}

// needer is an item that needs another one.
type needer struct {
	item   int
	strict bool
}

// lack is how many needs of an item in its group are not placed.
type lack struct{ strict, soft int }

type state uint8

const (
	fresh  state = iota
	onPath       // to other items along strict needs
	done         // with its strict needs
	placed
)

func newPlan(g *Graph) *plan {
	n := len(g.items)
	p := &plan{
		items: g.items, needs: make([][]need, n), needers: make([][]needer, n), group: make([]int, n),
		lacks: make([]lack, n), state: make([]state, n), wave: make([]int, n),
	}
	places := make(map[*Item]int, n)
	for i, item := range g.items {
		places[item] = i
	}
	for i, item := range g.items {
		for _, link := range slices.Concat(g.links[item], impliedLinks(item)) {
			if link.Item != nil {
				p.needs[i] = append(p.needs[i], need{to: places[link.Item], link: link})
			}
		}
	}
	return p
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

// step is an item on a path, and which of its needs is followed next.
type step struct{ item, next int }

// groups returns the items in groups within which each depends on each (Tarjan's strongly connected components). A
// group comes after those that it depends on.
func (p *plan) groups() [][]int {
	var (
		groups [][]int
		visit  = make([]int, len(p.items)) // the number of the first visit, from 1
		lowest = make([]int, len(p.items)) // visit that can be reached
		open   []int                       // items that have no group yet, in the order of their visits
		visits int
	)
	for root := range p.items {
		if visit[root] != 0 {
			continue
		}
		for path := []step{{item: root}}; len(path) > 0; {
			top := &path[len(path)-1]
			i := top.item
			if visit[i] == 0 {
				visits++
				visit[i], lowest[i] = visits, visits
				open = append(open, i)
			}
			if top.next < len(p.needs[i]) {
				to := p.needs[i][top.next].to
				top.next++
				if visit[to] == 0 {
					path = append(path, step{item: to})
				} else if p.group[to] == 0 {
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
			group := slices.Sorted(slices.Values(open[begin:]))
			open = open[:begin]
			groups = append(groups, group)
			for _, member := range group {
				p.group[member] = len(groups)
			}
		}
	}
	return groups
}

// place gives the items of a group their waves. All that the group depends on has been placed. It returns the cycle of
// the group, if it has one.
func (p *plan) place(group []int) *Cycle {
	p.breakStrict(group)
	p.placeSoftly(group)
	cycle := &Cycle{}
	for _, i := range group {
		cycle.Items = append(cycle.Items, p.items[i])
		for _, n := range p.needs[i] {
			if n.broken {
				cycle.Broken = append(cycle.Broken, n.link)
			}
		}
	}
	if cycle.Broken == nil {
		return nil
	}
	return cycle
}

// within reports whether a need of an item leads to the item's own group.
func (p *plan) within(item int, n need) bool { return p.group[item] == p.group[n.to] }

// breakStrict breaks those strict needs of a group that lead back to an item on the way to them, so that the others
// form no cycle.
func (p *plan) breakStrict(group []int) {
	for _, root := range group {
		if p.state[root] != fresh {
			continue
		}
		p.state[root] = onPath
		for path := []step{{item: root}}; len(path) > 0; {
			top := &path[len(path)-1]
			if top.next == len(p.needs[top.item]) {
				p.state[top.item] = done
				path = path[:len(path)-1]
				continue
			}
			n := &p.needs[top.item][top.next]
			top.next++
			if !n.link.Strict || !p.within(top.item, *n) {
				continue
			}
			switch p.state[n.to] {
			case onPath:
				n.broken = true
			case fresh:
				p.state[n.to] = onPath
				path = append(path, step{item: n.to})
			}
		}
	}
}

// placeSoftly places the items of a group after their strict dependencies. It first takes the items with the fewest
// missing soft dependencies, and breaks these dependencies.
func (p *plan) placeSoftly(group []int) {
	for _, i := range group {
		for _, n := range p.needs[i] {
			if p.within(i, n) && !n.broken {
				p.count(i, n.link.Strict, 1)
				p.needers[n.to] = append(p.needers[n.to], needer{i, n.link.Strict})
			}
		}
	}
	var next candidates
	for _, i := range group {
		next.offer(p, i)
	}
	for len(next) > 0 {
		i := next[0].item
		heap.Pop(&next)
		if p.state[i] == placed {
			continue
		}
		for k := range p.needs[i] {
			n := &p.needs[i][k]
			n.broken = n.broken || p.within(i, *n) && p.state[n.to] != placed
			if !n.broken {
				p.wave[i] = max(p.wave[i], p.wave[n.to]+1)
			}
		}
		p.state[i] = placed
		for _, by := range p.needers[i] {
			p.count(by.item, by.strict, -1)
			next.offer(p, by.item)
		}
	}
}

func (p *plan) count(item int, strict bool, change int) {
	if strict {
		p.lacks[item].strict += change
	} else {
		p.lacks[item].soft += change
	}
}

// candidates are a heap of items that can be placed. An item that lacks fewer soft needs than before is there again.
type candidates []candidate

type candidate struct{ item, lacks int }

// offer adds an item if it lacks no strict need and is not placed.
func (c *candidates) offer(p *plan, item int) {
	if p.lacks[item].strict == 0 && p.state[item] != placed {
		heap.Push(c, candidate{item, p.lacks[item].soft})
	}
}

func (c candidates) Len() int { return len(c) }
func (c candidates) Less(i, j int) bool {
	return cmp.Or(c[i].lacks-c[j].lacks, c[i].item-c[j].item) < 0
}
func (c candidates) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *candidates) Push(x any)   { *c = append(*c, x.(candidate)) } //nolint:forcetypeassert // offer pushes nothing else

func (c *candidates) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}
