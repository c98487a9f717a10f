package drift

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/object"
	"github.com/cleat-dev/cleat/server/internal/kube/orders"
)

// States are the states of one object to compare, as decoded JSON. Compare does not change them.
type States struct {
	Resource schema.GroupResource
	Archived map[string]any // in the backup
	Reset    map[string]any // after the reset of every restore, before the user's modifiers
	Wanted   map[string]any // as it would be created
	Live     map[string]any // in the cluster
}

// Kind is the kind of a difference.
type Kind int

// The kinds of differences.
const (
	Missing Kind = iota // the field is not in the cluster
	Extra               // the field is not in the backup
	Changed
)

// Difference is one field in which the object in the cluster differs from the backup.
type Difference struct {
	Path string // e.g. spec.ports[http].nodePort
	Kind Kind
	// Obstacle is why an update does not change the field. It is empty if an update changes it.
	Obstacle string
	// Foreign means that the object belongs to another owner now, so that an update does not change it at all.
	Foreign bool
	// Immutable means that the API server refuses a change of the field.
	Immutable bool
}

// Drift holds the differences of one object.
type Drift struct {
	Differences []Difference

	rules  rules
	states States // without the parts that are never compared
}

// Compare compares the object in the cluster with the backup.
func Compare(s States) *Drift {
	d := &Drift{rules: rulesOf(s), states: s}
	for _, state := range []*map[string]any{&d.states.Archived, &d.states.Reset, &d.states.Wanted, &d.states.Live} {
		*state = withoutInstance(*state)
		if s.Resource == leases {
			delete(*state, "spec") // the state of the lease holder
		}
	}
	keepFinalizers(d.states.Wanted, d.states.Live)
	d.walk(func(found Difference) bool {
		d.Differences = append(d.Differences, found)
		return false
	})
	return d
}

// Apply returns the object in the cluster after a change of the fields that take accepts.
func (d *Drift) Apply(take func(Difference) bool) map[string]any { return d.walk(take) }

// Live returns the object in the cluster in the compared form.
func (d *Drift) Live() map[string]any { return d.states.Live }

// walk calls take for each difference. It returns the object in the cluster without the differences that take accepts.
func (d *Drift) walk(take func(Difference) bool) map[string]any {
	s := &d.states
	if equality.Semantic.DeepEqual(s.Wanted, s.Live) {
		return s.Live
	}
	w := &walker{rules: d.rules, take: take}
	merged, _ := w.merge(node{
		archived: s.Archived, reset: s.Reset, wanted: s.Wanted, live: s.Live, wantedBy: ownersOf(s.Archived),
		liveBy: ownersOf(s.Live),
	}).(map[string]any)
	return merged
}

// withoutInstance returns an object without its type and without the parts that differ between any two instances: the
// metadata of one instance, the status, the names of restores, and what servers and agents act upon, which a restore
// neither brings nor removes. ownersOf needs metadata.managedFields; merge skips it.
func withoutInstance(o map[string]any) map[string]any {
	out := maps.Clone(o)
	for _, key := range []string{"apiVersion", "kind", "status"} {
		delete(out, key)
	}
	meta, ok := out["metadata"].(map[string]any)
	if !ok {
		return out
	}
	meta = maps.Clone(meta)
	out["metadata"] = meta
	for _, key := range object.InstanceMetadata() {
		delete(meta, key)
	}
	for _, field := range []string{"labels", "annotations"} {
		entries, ok := meta[field].(map[string]any)
		if !ok {
			continue
		}
		entries = maps.Clone(entries)
		maps.DeleteFunc(entries, func(key string, _ any) bool {
			return orders.Is(key) || field == "labels" && (key == velerov1.BackupNameLabel || key == velerov1.RestoreNameLabel ||
				key == corev1.LabelMetadataName) // of a namespace, with its name
		})
		if meta[field] = entries; len(entries) == 0 {
			delete(meta, field)
		}
	}
	return out
}

// keepFinalizers adds the finalizers of the object in the cluster to the wanted ones. Each prevents the deletion for a
// controller.
func keepFinalizers(wanted, live map[string]any) {
	meta, _ := wanted["metadata"].(map[string]any)
	of, _ := live["metadata"].(map[string]any)
	held, _ := of["finalizers"].([]any)
	if meta == nil || len(held) == 0 {
		return
	}
	all := slices.Clone(held)
	more, _ := meta["finalizers"].([]any)
	for _, finalizer := range more {
		if !slices.Contains(all, finalizer) {
			all = append(all, finalizer)
		}
	}
	meta["finalizers"] = all
}

// node is a field in its four states; a state is nil if the field is absent there.
type node struct {
	path    string // as in messages
	pattern string // as in the rules: "spec.ports[].nodePort"

	archived, reset, wanted, live any

	wantedBy, liveBy owners

	dropped bool // an action of the backup has removed it from the item that it stored
}

func (n node) field(key string, archived, reset, wanted, live map[string]any) node {
	below := node{
		path: key, pattern: key, archived: archived[key], reset: reset[key], wanted: wanted[key], live: live[key],
		wantedBy: n.wantedBy.field(key), liveBy: n.liveBy.field(key),
	}
	below.dropped = n.dropped || archived != nil && archived[key] == nil && n.wantedBy.name(key)
	switch {
	case n.path == "":
	case strings.ContainsAny(key, "./"):
		below.path, below.pattern = n.path+"["+key+"]", n.pattern+"."+key
	default:
		below.path, below.pattern = n.path+"."+key, n.pattern+"."+key
	}
	return below
}

// chosen reports whether the value of one side, which is missing on the other, was chosen rather than filled in.
func (n node) chosen() bool {
	switch {
	case n.wanted == nil && n.reset != nil: // a modifier has removed it
		return true
	case n.live != nil && n.liveBy.any() || n.wanted != nil && n.wantedBy.any():
		return true
	case n.wanted == nil:
		return false
	}
	_, isMap := n.wanted.(map[string]any)
	return n.archived == nil || !isMap && !equality.Semantic.DeepEqual(n.wanted, n.archived) // the restore has set it
}

// walker compares an object field by field.
type walker struct {
	rules rules
	take  func(Difference) bool
}

// merge returns the value of the field in the cluster after the changes that take accepts.
func (w *walker) merge(n node) any {
	if isEmpty(n.wanted) && !isEmpty(n.archived) {
		n.wanted = nil // the restore has removed everything in it
	}
	if isEmpty(n.reset) && !isEmpty(n.archived) {
		n.reset = nil
	}
	if n.pattern == "metadata.managedFields" || equality.Semantic.DeepEqual(n.wanted, n.live) {
		return n.live
	}
	if held, ok := w.rules.held[n.pattern]; ok {
		if value, decided := w.mergeHeld(n, held); decided {
			return value
		}
	}
	wantedMap, wantedIsMap := n.wanted.(map[string]any)
	liveMap, liveIsMap := n.live.(map[string]any)
	if liveIsMap && (wantedIsMap || n.wanted == nil && len(liveMap) > 0) {
		return w.mergeFields(n, wantedMap, liveMap)
	}
	wantedList, wantedIsList := n.wanted.([]any)
	liveList, liveIsList := n.live.([]any)
	if wantedIsList && liveIsList {
		return w.mergeElements(n, wantedList, liveList)
	}
	return w.differ(n)
}

// differ handles a field whose parts are not compared.
func (w *walker) differ(n node) any {
	if n.wanted == nil && (n.dropped || n.archived != nil && n.reset == nil) || !n.chosen() {
		return n.live
	}
	if n.pattern == w.rules.size {
		if value, decided := w.mergeSize(n); decided {
			return value
		}
	}
	found := Difference{Path: n.path, Kind: Changed}
	switch {
	case n.live == nil:
		found.Kind = Missing
	case n.wanted == nil:
		found.Kind = Extra
	}
	if w.rules.isImmutable(n.pattern) {
		found.Obstacle, found.Immutable = "it cannot be changed in an object that exists", true
	}
	return w.choose(n, found)
}

// mergeSize handles the requested size of a claim. decided is false if it is a difference like others.
func (w *walker) mergeSize(n node) (value any, decided bool) {
	wanted, errWanted := resource.ParseQuantity(fmt.Sprint(n.wanted))
	live, errLive := resource.ParseQuantity(fmt.Sprint(n.live))
	if errWanted != nil || errLive != nil {
		return nil, false
	}
	byUser := !equality.Semantic.DeepEqual(n.wanted, n.reset)
	switch order := wanted.Cmp(live); {
	case order == 0, order > 0 && w.rules.grown && !byUser:
		return n.live, true
	case order < 0:
		return w.choose(n, Difference{Path: n.path, Kind: Changed, Immutable: true,
			Obstacle: "a claim cannot be made smaller"}), true
	}
	return nil, false
}

func (w *walker) choose(n node, found Difference) any {
	if w.take(found) {
		return n.wanted
	}
	return n.live
}

// mergeHeld handles a field that refers to something that the object holds, or to the holder of the object. decided is
// false if both sides are the same, or if the object in the cluster holds nothing.
func (w *walker) mergeHeld(n node, held holding) (value any, decided bool) {
	if n.wanted == nil && (n.archived != nil && n.reset == nil || !n.liveBy.any()) {
		return n.live, true
	}
	if n.live == nil && !held.unguarded {
		return nil, false
	}
	if held.same(n.wanted, n.live) {
		if held.stale && w.rules.released {
			return w.choose(n, Difference{Path: n.path, Kind: Changed}), true
		}
		return nil, false
	}
	found := Difference{Path: n.path, Kind: Changed, Foreign: held.foreign, Obstacle: held.why + ", now " + holder(n.live)}
	w.take(found)
	return n.live, true
}

// mergeFields merges two objects. wanted is nil if the backup has none.
func (w *walker) mergeFields(n node, wanted, live map[string]any) any {
	archived, _ := n.archived.(map[string]any)
	reset, _ := n.reset.(map[string]any)
	merged := maps.Clone(live)
	for _, key := range keysOf(wanted, live) {
		value := w.merge(n.field(key, archived, reset, wanted, live))
		if value == nil {
			delete(merged, key)
			continue
		}
		merged[key] = value
	}
	if wanted == nil && len(merged) == 0 {
		return nil
	}
	return merged
}

// mergeElements merges two lists. Elements are compared by their names or, in lists of the same length, by their
// positions; other lists are compared as a whole.
func (w *walker) mergeElements(n node, wanted, live []any) any {
	archived, _ := n.archived.([]any)
	reset, _ := n.reset.([]any)
	wantedNames, liveNames := namesOf(wanted), namesOf(live)
	switch {
	case wantedNames != nil && liveNames != nil && sameOrder(wantedNames, liveNames):
		return w.mergeNamed(n, byName(archived), byName(reset), wanted, live, wantedNames, liveNames)
	case len(wanted) == len(live) && areObjects(wanted) && areObjects(live):
		merged := make([]any, len(live))
		for i := range live {
			merged[i] = w.merge(n.element(fmt.Sprint(i), at(archived, i, len(wanted)), at(reset, i, len(wanted)), wanted[i],
				live[i]))
		}
		return merged
	}
	n.live = slices.DeleteFunc(slices.Clone(live), func(element any) bool {
		return contains(archived, element) && !contains(reset, element)
	})
	if equality.Semantic.DeepEqual(n.wanted, n.live) {
		return live
	}
	if n.live = live; len(live) == 0 {
		n.live = nil
	}
	if value := w.differ(n); value != nil {
		return value
	}
	return live
}

// mergeNamed merges two lists of objects with names. An element that only the backup has follows its predecessor in
// the backup.
func (w *walker) mergeNamed(
	n node, archived, reset map[string]any, wanted, live []any, wantedNames, liveNames []string,
) any {
	inWanted, inLive := byName(wanted), byName(live)
	var merged []any
	add := func(name string) {
		if value := w.merge(n.element(name, archived[name], reset[name], inWanted[name], inLive[name])); value != nil {
			merged = append(merged, value)
		}
	}
	next := 0
	for _, name := range liveNames {
		if inWanted[name] != nil {
			for ; wantedNames[next] != name; next++ {
				add(wantedNames[next])
			}
			next++
		}
		add(name)
	}
	for ; next < len(wantedNames); next++ {
		add(wantedNames[next])
	}
	if merged == nil {
		return []any{}
	}
	return merged
}

func (n node) element(name string, archived, reset, wanted, live any) node {
	return node{
		path: n.path + "[" + name + "]", pattern: n.pattern + "[]", archived: archived, reset: reset, wanted: wanted,
		live:     live,
		wantedBy: n.wantedBy.element(wanted), liveBy: n.liveBy.element(live),
	}
}

// namesOf returns the names of the elements, or nil unless all are objects with distinct names.
func namesOf(list []any) []string {
	names := make([]string, 0, len(list))
	seen := make(map[string]bool, len(list))
	for _, element := range list {
		fields, _ := element.(map[string]any)
		name, _ := fields["name"].(string)
		if name == "" || seen[name] {
			return nil
		}
		seen[name] = true
		names = append(names, name)
	}
	return names
}

func byName(list []any) map[string]any {
	elements := make(map[string]any, len(list))
	for i, name := range namesOf(list) {
		elements[name] = list[i]
	}
	return elements
}

// sameOrder reports whether the names that both lists have are in the same order.
func sameOrder(first, second []string) bool {
	common := func(names, others []string) []string {
		in := make(map[string]bool, len(others))
		for _, name := range others {
			in[name] = true
		}
		return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !in[name] })
	}
	return slices.Equal(common(first, second), common(second, first))
}

func areObjects(list []any) bool {
	return !slices.ContainsFunc(list, func(element any) bool { _, ok := element.(map[string]any); return !ok })
}

// at returns an element of a list of the given length, or nil for a list of another length.
func at(list []any, i, length int) any {
	if len(list) != length {
		return nil
	}
	return list[i]
}

func contains(list []any, element any) bool {
	return slices.ContainsFunc(list, func(other any) bool { return equality.Semantic.DeepEqual(other, element) })
}

func isEmpty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(value) == 0
	case []any:
		return len(value) == 0
	}
	return false
}

// keysOf returns the keys of both objects, sorted.
func keysOf(first, second map[string]any) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(first)), maps.Keys(second))
	slices.Sort(keys)
	return slices.Compact(keys)
}
