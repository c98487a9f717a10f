// Package order puts items that need each other into waves, in memory that a million items can have. Items are numbers;
// package manifest and the plan of a restore know what they stand for.
//
//	Needs   order.go       what each item needs
//	Waves   order.go       each item after what it needs
//	Cycle   cycle.go       items that need each other, and the needs that are disregarded for that
//	groups  components.go  the items among which each needs each
package order

import (
	"fmt"
	"math"
	"slices"
)

// MaxItems is the largest number of items.
const MaxItems = math.MaxInt32

// Needs holds what each of some items needs. The zero value is empty and ready for use.
type Needs struct {
	first []uint32 // of each item: the position of its first need
	all   []need   // by the items that have them
}

// need is the number of an item, twice that, and one more if the need is strict.
type need uint32

func (n need) to() int32    { return int32(n >> 1) } //nolint:gosec // Add has checked it
func (n need) strict() bool { return n&1 != 0 }

// Item adds an item and returns its number, from 0. The calls of Add that follow are for it.
func (n *Needs) Item() int {
	n.first = append(n.first, uint32(len(n.all))) //nolint:gosec // Add has checked it
	return len(n.first) - 1
}

// Add adds a need of the last item. The needed item may be added later.
func (n *Needs) Add(item int, strict bool) {
	if item < 0 || item >= MaxItems || len(n.all) == math.MaxUint32 {
		panic(fmt.Sprintf("order: need %d of an item is for item %d, want less than %d of both", len(n.all), item, MaxItems))
	}
	packed := need(item) << 1 //nolint:gosec // checked above
	if strict {
		packed |= 1
	}
	n.all = append(n.all, packed)
}

// Len returns the number of items.
func (n *Needs) Len() int { return len(n.first) }

// Of yields what an item needs, in the order of the calls of Add.
func (n *Needs) Of(item int) func(yield func(to int, strict bool) bool) {
	return func(yield func(int, bool) bool) {
		for _, need := range n.of(int32(item)) { //nolint:gosec // an item
			if !yield(int(need.to()), need.strict()) {
				return
			}
		}
	}
}

// To returns the item that a need is for, by its position among the needs of the item that has it.
func (n *Needs) To(item, need int) int {
	return int(n.of(int32(item))[need].to()) //nolint:gosec // an item
}

func (n *Needs) of(item int32) []need {
	end := len(n.all)
	if int(item)+1 < len(n.first) {
		end = int(n.first[item+1])
	}
	return n.all[n.first[item]:end]
}

// Waves returns the wave of each item, from 0: as early as possible after the waves of everything that it needs. Where
// items need each other, it disregards some of their needs, which are in the cycles. Cycles are sorted by their first
// item.
//
// All needed items must have been added. The time is linear in the number of items and needs, but for cycles, in which
// it is their size times its logarithm.
func (n *Needs) Waves() (waves []int32, cycles []Cycle) {
	waves = make([]int32, n.Len())
	n.groups(func(group, numbers []int32) {
		if len(group) == 1 && !n.needsItself(group[0]) {
			waves[group[0]] = n.after(group[0], waves)
			return
		}
		cycles = append(cycles, n.place(group, numbers, waves))
	})
	slices.SortFunc(cycles, func(a, b Cycle) int { return a.Items[0] - b.Items[0] })
	return waves, cycles
}

func (n *Needs) needsItself(item int32) bool {
	return slices.ContainsFunc(n.of(item), func(need need) bool { return need.to() == item })
}

// after returns the first wave after everything that an item needs.
func (n *Needs) after(item int32, waves []int32) (wave int32) {
	for _, need := range n.of(item) {
		wave = max(wave, waves[need.to()]+1)
	}
	return wave
}
