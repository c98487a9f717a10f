package backup

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/cleat-dev/cleat/server/internal/bucket/nametable"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
)

// ResourceList are the objects of a backup in the form of Velero's file: by "apiVersion/Kind", "namespace/name" or
// "name". It needs little memory.
type ResourceList struct {
	names      nametable.Table
	namespaces map[string]nametable.Name // one copy of the name of each namespace
	kinds      map[string][]listEntry
}

// listEntry is an object in a list.
type listEntry struct{ namespace, name nametable.Name }

func newResourceList() *ResourceList {
	return &ResourceList{namespaces: map[string]nametable.Name{}, kinds: map[string][]listEntry{}}
}

func (l *ResourceList) add(meta item.Meta) (err error) {
	namespace, known := l.namespaces[meta.Namespace]
	if !known {
		if namespace, err = l.names.Add(meta.Namespace); err != nil {
			return err
		}
		l.namespaces[meta.Namespace] = namespace
	}
	name, err := l.names.Add(meta.Name)
	if err != nil {
		return err
	}
	kind := meta.APIVersion + "/" + meta.Kind
	l.kinds[kind] = append(l.kinds[kind], listEntry{namespace, name})
	return nil
}

// complete sorts the list, to which nothing may be added afterwards.
func (l *ResourceList) complete() {
	l.names.Seal()
	for _, all := range l.kinds {
		slices.SortFunc(all, func(a, b listEntry) int {
			if a.namespace != b.namespace {
				return cmp.Compare(l.names.Of(a.namespace), l.names.Of(b.namespace))
			}
			return cmp.Compare(l.names.Of(a.name), l.names.Of(b.name))
		})
	}
}

// Kinds returns the kinds of the objects, sorted.
func (l *ResourceList) Kinds() []string { return slices.Sorted(maps.Keys(l.kinds)) }

// Of yields the objects of a kind, by namespace and name.
func (l *ResourceList) Of(kind string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, one := range l.kinds[kind] {
			if !yield(listName(l.names.Of(one.namespace), l.names.Of(one.name))) {
				return
			}
		}
	}
}

// listName returns the name of an object in a list.
func listName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// MarshalJSONTo implements json.MarshalerTo.
func (l *ResourceList) MarshalJSONTo(out *jsontext.Encoder) error { return store.EncodeLists(out, l) }
