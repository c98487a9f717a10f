package plan

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/framework/manifest/order"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
)

// Order is the order in which the items of a restore begin: by levels, which the priorities of their resources give,
// and each after what it needs. Its items are in the order of the priorities, those of a resource by namespace and name.
type Order struct {
	// Level is the position of each item's resource in the priorities. An item that an item of an earlier level needs
	// strictly is in that level, with those that it needs softly and that do not come later by the priorities.
	Level []int32
	// Needs are what each item needs, by the positions of Items. They have no cycles.
	Needs *order.Needs
	// Cycles are the items that need each other, with the needs that are disregarded for that.
	Cycles []Cycle

	resources []items                      // those that have items, in the order of the items
	at        map[schema.GroupResource]int // in resources
	length    int
	snapshot  *discovery.Snapshot
	fixed     bool
	edges     []edge
	missed    map[archive.Entry]*missed
	owning    []bool // of each item: whether others have it as an owner

	moreMissed int // needs that are not in missed

	// See AddGates.
	backup     *archive.Archive
	sources    map[string][]string // the namespaces of the backup, by their targets
	gates      []gate
	callers    map[schema.GroupResource][]int // gates that may be for objects of a resource
	labels     map[string]labels.Set          // of namespaces
	converted  map[int]bool                   // see IsConverted
	aggregated []string                       // API groups; see Aggregates
}

// Cycle is a set of items that need each other.
type Cycle struct {
	Items []archive.Entry
	// Broken are the disregarded needs: of an item of another one.
	Broken [][2]archive.Entry
}

// Objects are objects of one resource, sorted by namespace and name.
type Objects interface {
	Len() int
	At(i int) archive.Entry
	// Position returns the position of an object.
	Position(namespace, name string) (i int, found bool)
}

// Entries are Objects that are in memory.
type Entries []archive.Entry

// Len implements Objects.
func (e Entries) Len() int { return len(e) }

// At implements Objects.
func (e Entries) At(i int) archive.Entry { return e[i] }

// Position implements Objects.
func (e Entries) Position(namespace, name string) (int, bool) {
	return slices.BinarySearchFunc(e, struct{}{}, func(a archive.Entry, _ struct{}) int {
		return cmp.Or(cmp.Compare(a.Namespace, namespace), cmp.Compare(a.Name, name))
	})
}

// items are the items of a resource.
type items struct {
	of      schema.GroupResource
	objects Objects
	begin   int // the position of the first one
}

type edge struct {
	from, to int32
	strict   bool
}

// NewOrder returns an order without items. snapshot has the resources of the cluster. If fixed is set, no need has an
// effect against the priorities.
func NewOrder(snapshot *discovery.Snapshot, fixed bool) *Order {
	return &Order{at: map[schema.GroupResource]int{}, snapshot: snapshot, fixed: fixed}
}

// AddLevel adds the items of a resource.
func (o *Order) AddLevel(gr schema.GroupResource, level int, objects Objects) {
	n := objects.Len()
	if n == 0 {
		return
	}
	o.at[gr] = len(o.resources)
	o.resources = append(o.resources, items{of: gr, objects: objects, begin: o.length})
	o.length += n
	o.owning = append(o.owning, make([]bool, n)...)
	for range n {
		o.Level = append(o.Level, int32(level)) //nolint:gosec // as many as resources
	}
}

// Len returns the number of items.
func (o *Order) Len() int { return o.length }

// Item returns the item at a position.
func (o *Order) Item(i int) archive.Entry {
	at, found := slices.BinarySearchFunc(o.resources, i, func(r items, i int) int { return cmp.Compare(r.begin, i) })
	if !found {
		at--
	}
	return o.resources[at].objects.At(i - o.resources[at].begin)
}

// Span returns the first position of the items of a resource, and the one after the last.
func (o *Order) Span(gr schema.GroupResource) (begin, end int) {
	at, found := o.at[gr]
	if !found {
		return 0, 0
	}
	begin = o.resources[at].begin
	return begin, begin + o.resources[at].objects.Len()
}

// Position returns the position of an object among the items.
func (o *Order) Position(e archive.Entry) (int, bool) {
	at, ok := o.at[e.GroupResource]
	if !ok {
		return 0, false
	}
	i, found := o.resources[at].objects.Position(e.Namespace, e.Name)
	return o.resources[at].begin + i, found
}

// Owns reports whether an object owns one of the items.
func (o *Order) Owns(e archive.Entry) bool {
	at, found := o.Position(e)
	return found && o.owning[at]
}

// Has reports whether an object is among the items.
func (o *Order) Has(e archive.Entry) bool {
	_, found := o.Position(e)
	return found
}

// HasService reports whether a service of the cluster is restored from one of the items.
func (o *Order) HasService(s Service) bool {
	return slices.ContainsFunc(o.sources[s.Namespace], func(source string) bool {
		_, found := o.find(serviceRef(Service{source, s.Name}))
		return found
	})
}

func serviceRef(s Service) manifest.Ref {
	return manifest.Ref{Resource: servicesResource.Resource, Namespace: s.Namespace, Name: s.Name}
}

// IsConverted reports whether the custom resources of a definition among the items wait for its conversion webhook.
func (o *Order) IsConverted(item int) bool { return o.converted[item] }

// AddEdges adds the dependencies of an object. It ignores objects that are not among the items.
//
// An object needs its owners, with an exception: the controllers of workloads adopt what exists and make what they
// miss, so they come after what they own. Other objects of the core group do not need to exist before what they own.
func (o *Order) AddEdges(of *manifest.Item) {
	from, found := o.find(of.Ref())
	if !found {
		return
	}
	o.intercept(from, of)
	for _, e := range of.Edges {
		if e.Type == manifest.More {
			continue
		}
		to, found := o.find(e.To)
		if !found {
			o.miss(from, e)
		}
		if !found || to == from {
			continue
		}
		made := edge{int32(from), int32(to), e.Strict} //nolint:gosec // order.MaxItems
		if e.Type == manifest.Owner || e.Type == manifest.Controller {
			o.owning[to] = true
			switch {
			case isWorkload(e.To):
				made = edge{made.to, made.from, true}
			case e.To.Group == "":
				continue
			}
		}
		o.edges = append(o.edges, made)
	}
}

// isWorkload reports whether an object makes pods, directly or not, and adopts those that exist.
func isWorkload(ref manifest.Ref) bool {
	switch ref.Group {
	case "apps", "batch", "extensions", "apps.openshift.io":
		return true
	}
	return ref.Group == "" && ref.Kind == "ReplicationController"
}

// resourceOf returns the resource of an object, and false if it is not known.
func (o *Order) resourceOf(ref manifest.Ref) (schema.GroupResource, bool) {
	if ref.Resource != "" {
		return schema.GroupResource{Group: ref.Group, Resource: ref.Resource}, true
	}
	known, ok := o.snapshot.ByKind(schema.GroupKind{Group: ref.Group, Kind: ref.Kind})
	return known.GroupResource(), ok
}

// find returns the position of an object.
func (o *Order) find(ref manifest.Ref) (int, bool) {
	gr, ok := o.resourceOf(ref)
	if !ok {
		return 0, false
	}
	for _, namespace := range []string{ref.Namespace, ""} { // the manifest has the owner of an object in its namespace
		if i, found := o.Position(archive.Entry{GroupResource: gr, Namespace: namespace, Name: ref.Name}); found {
			return i, true
		}
		if namespace == "" {
			break
		}
	}
	return 0, false
}

// Complete makes Needs and Cycles of the added dependencies. Nothing may be added afterwards.
func (o *Order) Complete() {
	o.sortEdges()
	o.addGates()
	if !o.fixed {
		o.lift()
	}
	o.edges = slices.DeleteFunc(o.edges, func(e edge) bool { return o.Level[e.to] > o.Level[e.from] })
	of := func(without map[order.Broken]bool) *order.Needs {
		needs := new(order.Needs)
		edges := o.edges
		for i := range o.Len() {
			needs.Item()
			for k := 0; len(edges) > 0 && int(edges[0].from) == i; k++ {
				if !without[order.Broken{Item: i, Need: k}] {
					needs.Add(int(edges[0].to), edges[0].strict)
				}
				edges = edges[1:]
			}
		}
		return needs
	}
	o.Needs = of(nil)
	_, cycles := o.Needs.Waves()
	if len(cycles) > 0 {
		broken := map[order.Broken]bool{}
		for _, cycle := range cycles {
			made := Cycle{}
			for _, item := range cycle.Items {
				made.Items = append(made.Items, o.Item(item))
			}
			for _, b := range cycle.Broken {
				broken[b] = true
				made.Broken = append(made.Broken, [2]archive.Entry{o.Item(b.Item), o.Item(o.Needs.To(b.Item, b.Need))})
			}
			o.Cycles = append(o.Cycles, made)
		}
		o.Needs = of(broken)
	}
	o.edges, o.gates, o.callers, o.labels = nil, nil, nil, nil
	o.Level, o.owning = slices.Clone(o.Level), slices.Clone(o.owning) // without the room for more
}

func (o *Order) sortEdges() {
	slices.SortStableFunc(o.edges, func(a, b edge) int { return cmp.Compare(a.from, b.from) })
}

// firstEdges returns the position of the first edge of each item, and the number of edges.
func (o *Order) firstEdges() []int {
	first := make([]int, o.Len()+1)
	at := 0
	for i := range o.Len() {
		first[i] = at
		for at < len(o.edges) && int(o.edges[at].from) == i {
			at++
		}
	}
	first[o.Len()] = at
	return first
}

// lift moves what an item needs, directly or not, to the level of the item, if its own is later. A soft need is moved
// only if the priorities agree with it: then the item itself has been moved.
func (o *Order) lift() {
	first, given := o.firstEdges(), slices.Clone(o.Level)
	byLevel := make([]int, o.Len())
	for i := range byLevel {
		byLevel[i] = i
	}
	slices.SortStableFunc(byLevel, func(a, b int) int { return cmp.Compare(o.Level[a], o.Level[b]) })
	var open []int
	for _, i := range byLevel {
		for open = append(open[:0], i); len(open) > 0; {
			item := open[len(open)-1]
			open = open[:len(open)-1]
			for _, e := range o.edges[first[item]:first[item+1]] {
				if o.Level[e.to] > o.Level[item] && (e.strict || given[e.to] <= given[item]) {
					o.Level[e.to] = o.Level[item]
					open = append(open, int(e.to))
				}
			}
		}
	}
}
