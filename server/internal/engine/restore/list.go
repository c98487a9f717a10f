package restore

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/bucket/store"
)

// ResourceList are the items of a restore with what became of each, in the form of Velero's file: by
// "apiVersion/Kind", "namespace/name(action)", where action is created, updated, failed or skipped. Most of its entries
// are made when they are asked for. A nil list has none.
type ResourceList struct {
	settled settled
	of      map[string][]schema.GroupResource // of the settled ones
	others  map[string][]listEntry
	names   map[itemKey]string
	length  int
}

// listEntry is an entry of a ResourceList.
type listEntry struct {
	namespace, name string
	action          action
}

func (l listEntry) compare(other listEntry) int {
	return cmp.Or(cmp.Compare(l.namespace, other.namespace), cmp.Compare(l.name, other.name))
}

func (l listEntry) String() string {
	entry := l.name + "(" + l.action.String() + ")"
	if l.namespace != "" {
		entry = l.namespace + "/" + entry
	}
	return entry
}

func newResourceList(of settled, claims map[itemKey]*claim, names map[itemKey]string) *ResourceList {
	l := &ResourceList{
		settled: of, of: map[string][]schema.GroupResource{}, others: map[string][]listEntry{}, names: names,
	}
	for gr, kind := range of.kinds {
		l.of[kind] = append(l.of[kind], gr)
	}
	for _, result := range of.results {
		if result.action() != actionNone {
			l.length++
		}
	}
	for key, c := range claims {
		if c.action != actionNone {
			l.others[key.listKey] = append(l.others[key.listKey], l.entry(key, c.action))
			l.length++
		}
	}
	for _, entries := range l.others {
		slices.SortFunc(entries, listEntry.compare)
	}
	return l
}

func (l *ResourceList) entry(key itemKey, made action) listEntry {
	return listEntry{key.namespace, cmp.Or(l.names[key], key.name), made}
}

// Len returns the number of entries.
func (l *ResourceList) Len() int {
	if l == nil {
		return 0
	}
	return l.length
}

// Kinds returns the kinds of the items, sorted, each as "apiVersion/Kind".
func (l *ResourceList) Kinds() []string {
	if l == nil {
		return nil
	}
	kinds := map[string]bool{}
	for kind := range l.others {
		kinds[kind] = true
	}
	for kind := range l.of {
		for range l.settledOf(kind) {
			kinds[kind] = true
			break
		}
	}
	return slices.Sorted(maps.Keys(kinds))
}

// Of yields the entries of a kind, by the namespaces and names of the items in the backup.
func (l *ResourceList) Of(kind string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if l == nil {
			return
		}
		others := l.others[kind]
		for next := range l.settledOf(kind) {
			for len(others) > 0 && others[0].compare(next) < 0 {
				if !yield(others[0].String()) {
					return
				}
				others = others[1:]
			}
			if !yield(next.String()) {
				return
			}
		}
		for _, other := range others {
			if !yield(other.String()) {
				return
			}
		}
	}
}

// settledOf yields the settled items of a kind.
func (l *ResourceList) settledOf(kind string) iter.Seq[listEntry] {
	return func(yield func(listEntry) bool) {
		for _, gr := range l.of[kind] {
			begin, end := l.settled.order.Span(gr)
			for i := begin; i < end; i++ {
				made := l.settled.results[i].action()
				if made == actionNone {
					continue
				}
				e := l.settled.order.Item(i)
				if !yield(l.entry(itemKey{kind, l.settled.target(e.Namespace), e.Name}, made)) {
					return
				}
			}
		}
	}
}

// MarshalJSONTo implements json.MarshalerTo.
func (l *ResourceList) MarshalJSONTo(out *jsontext.Encoder) error { return store.EncodeLists(out, l) }
