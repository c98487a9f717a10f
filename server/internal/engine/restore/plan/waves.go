package plan

import (
	"cmp"
	"maps"
	"slices"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/framework/manifest/order"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
)

// Waves returns the wave of each item, from 0: those of an earlier level first, and in a level each after what it needs
// there.
func (o *Order) Waves() []int32 {
	within := new(order.Needs)
	levels := int32(0)
	for i := range o.Len() {
		within.Item()
		levels = max(levels, o.Level[i]+1)
		for to, strict := range o.Needs.Of(i) {
			if o.Level[to] == o.Level[i] {
				within.Add(to, strict)
			}
		}
	}
	waves, _ := within.Waves()
	deepest := make([]int32, levels) // waves of each level
	for i, wave := range waves {
		deepest[o.Level[i]] = max(deepest[o.Level[i]], wave+1)
	}
	first, next := make([]int32, levels), int32(0)
	for level, n := range deepest {
		first[level], next = next, next+n
	}
	for i := range waves {
		waves[i] += first[o.Level[i]]
	}
	return waves
}

// Describe describes the order for people and programs. waves are those of Waves, and has reports whether the backup
// has an object.
func (o *Order) Describe(waves []int32, has func(archive.Entry) bool) *outcome.Plan {
	made := &outcome.Plan{}
	type inWave struct {
		wave     int32
		resource string
	}
	counts, pairs := map[inWave]int{}, map[outcome.Pair]int{}
	var seen []outcome.Pair // those of an item
	for i := range o.Len() {
		resource := o.Item(i).GroupResource.String()
		counts[inWave{waves[i], resource}]++
		seen = seen[:0]
		for to, strict := range o.Needs.Of(i) {
			pair := outcome.Pair{Resource: resource, Needs: o.Item(to).GroupResource.String(), Strict: strict}
			if !slices.Contains(seen, pair) {
				seen = append(seen, pair)
				pairs[pair]++
			}
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(counts), func(a, b inWave) int {
		return cmp.Or(cmp.Compare(a.wave, b.wave), cmp.Compare(a.resource, b.resource))
	}) {
		if int(key.wave) == len(made.Waves) {
			made.Waves = append(made.Waves, outcome.Wave{})
		}
		wave := &made.Waves[len(made.Waves)-1]
		wave.Resources = append(wave.Resources, outcome.Count{Resource: key.resource, Items: counts[key]})
	}
	for pair, n := range pairs {
		pair.Items = n
		made.Needs = append(made.Needs, pair)
	}
	slices.SortFunc(made.Needs, func(a, b outcome.Pair) int {
		return cmp.Or(cmp.Compare(b.Items, a.Items), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Needs, b.Needs),
			boolOrder(b.Strict, a.Strict))
	})
	made.Needs = made.Needs[:min(len(made.Needs), outcome.MaxNeeds)]
	for _, cycle := range o.Cycles[:min(len(o.Cycles), outcome.MaxCycles)] {
		one := outcome.Cycle{Items: len(cycle.Items)}
		for _, pair := range cycle.Broken[:min(len(cycle.Broken), outcome.MaxCycles)] {
			one.Broken = append(one.Broken, outcome.Broken{Item: RefOf(pair[0]), Before: RefOf(pair[1])})
		}
		made.Cycles = append(made.Cycles, one)
	}
	made.MoreCycles = len(o.Cycles) - len(made.Cycles)
	made.Missing, made.MoreMissing = o.missing(has)
	return made
}

// RefOf returns the name of an item for people and programs.
func RefOf(e archive.Entry) outcome.Ref {
	return outcome.Ref{Resource: e.GroupResource.String(), Namespace: e.Namespace, Name: e.Name}
}

// maxMissed bounds the memory of what items need and the restore does not restore.
const maxMissed = 10_000

// missed is an object that is not among the items and that items need.
type missed struct {
	strict bool
	items  int
	needer int32 // the first
}

// miss records that an item needs an object that is not among the items.
func (o *Order) miss(item int, e manifest.Edge) {
	ref, ok := o.entryOf(e.To)
	if !ok || e.To.Name == "" {
		return
	}
	known := o.missed[ref]
	if known == nil {
		if len(o.missed) == maxMissed {
			o.moreMissed++
			return
		}
		known = &missed{needer: int32(item)} //nolint:gosec // order.MaxItems
		if o.missed == nil {
			o.missed = map[archive.Entry]*missed{}
		}
		o.missed[ref] = known
	}
	known.items++
	known.strict = known.strict || e.Strict
	known.needer = min(known.needer, int32(item)) //nolint:gosec // order.MaxItems
}

// entryOf returns the place of an object in an archive, if its resource is known.
func (o *Order) entryOf(ref manifest.Ref) (archive.Entry, bool) {
	gr, ok := o.resourceOf(ref)
	entry := archive.Entry{GroupResource: gr, Namespace: ref.Namespace, Name: ref.Name}
	if served, known := o.snapshot.ByGroupResource(gr); known && !served.Namespaced {
		entry.Namespace = "" // the manifest has the owner of an object in its namespace
	}
	return entry, ok
}

// missing returns what was missed: first what is needed strictly, then what most items need. more is the number of the
// others.
func (o *Order) missing(has func(archive.Entry) bool) (list []outcome.Missing, more int) {
	for entry, by := range o.missed {
		list = append(list, outcome.Missing{Ref: RefOf(entry), LeftOut: has(entry), Strict: by.strict, Items: by.items,
			Needer: RefOf(o.Item(int(by.needer)))})
	}
	slices.SortFunc(list, func(a, b outcome.Missing) int {
		return cmp.Or(boolOrder(b.Strict, a.Strict), cmp.Compare(b.Items, a.Items),
			cmp.Compare(a.String(), b.String()))
	})
	shown := min(len(list), outcome.MaxMissing)
	return list[:shown:shown], len(list) - shown + o.moreMissed
}

func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}
