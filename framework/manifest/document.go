package manifest

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
)

// NamespacedItems are items of one kind: by namespace, empty for cluster-scoped ones, and by name.
type NamespacedItems map[string]map[string]*Item

// KindNamespaces are items by resource, group and version: "deployments.apps/v1", "pods/v1".
type KindNamespaces map[string]NamespacedItems

// Manifest holds all items of a backup. It can be read concurrently while nothing is added.
type Manifest struct {
	// Kinds holds all items.
	Kinds KindNamespaces
	// Index finds an item by its UID. If several items have the same one, the first that was added keeps it.
	Index map[string]*Item

	children map[string][]*Item  // by the UID of an owner, in the order in which they were added
	served   map[served][]string // keys of Kinds
}

// served is a resource or kind of a group, in any version.
type served struct{ group, resource, kind string }

// New returns an empty manifest.
func New() *Manifest {
	return &Manifest{Kinds: KindNamespaces{}, Index: map[string]*Item{}, children: map[string][]*Item{},
		served: map[served][]string{}}
}

// Manifester is the interface of Manifest.
type Manifester interface {
	Set() sets.Set[string]
	Add(item *Item) (bool, error)
}

var _ Manifester = (*Manifest)(nil)

// Error is an error that can be compared.
type Error string

// Error implements error.
func (e Error) Error() string { return string(e) }

// ItemAlreadyExists is the error of Manifest.Add for an item that it has.
const ItemAlreadyExists = Error("item already exists in manifest")

// Add adds an item, which belongs to the manifest from then on. It returns false and ItemAlreadyExists if the manifest
// has an item of the same resource, version, namespace and name, and false and another error if the item cannot be in a
// manifest.
func (m *Manifest) Add(item *Item) (bool, error) {
	if err := item.check(); err != nil {
		return false, err
	}
	kind := item.kindKey()
	namespaces := m.Kinds[kind]
	if _, exists := namespaces[item.Namespace][item.Name]; exists {
		return false, ItemAlreadyExists
	}
	if namespaces == nil {
		namespaces = NamespacedItems{}
		m.Kinds[kind] = namespaces
		m.serve(served{group: item.APIGroup, resource: item.Resource}, kind)
	}
	m.serve(served{group: item.APIGroup, kind: item.ItemKind}, kind)
	if namespaces[item.Namespace] == nil {
		namespaces[item.Namespace] = map[string]*Item{}
	}
	namespaces[item.Namespace][item.Name] = item
	if item.UID != "" && m.Index[item.UID] == nil {
		m.Index[item.UID] = item
	}
	for _, owner := range item.OwnerUIDs {
		m.children[owner] = append(m.children[owner], item)
	}
	item.Manifest = m
	return true, nil
}

func (m *Manifest) serve(what served, kind string) {
	if !slices.Contains(m.served[what], kind) {
		m.served[what] = append(m.served[what], kind)
		slices.Sort(m.served[what])
	}
}

// Set returns the items as strings, to find out whether two manifests have items in common.
func (m *Manifest) Set() sets.Set[string] {
	all := sets.New[string]()
	for item := range m.unsorted() {
		all.Insert(item.String())
	}
	return all
}

// Overlap returns the items that are in both manifests, as strings.
func (m *Manifest) Overlap(other *Manifest) sets.Set[string] {
	return m.Set().Intersection(other.Set())
}

// Items yields all items by group, resource, namespace, name and version.
func (m *Manifest) Items() iter.Seq[*Item] {
	return func(yield func(*Item) bool) {
		for _, item := range slices.SortedFunc(m.unsorted(), compareItems) {
			if !yield(item) {
				return
			}
		}
	}
}

func (m *Manifest) unsorted() iter.Seq[*Item] {
	return func(yield func(*Item) bool) {
		for _, namespaces := range m.Kinds {
			for _, names := range namespaces {
				for item := range maps.Values(names) {
					if !yield(item) {
						return
					}
				}
			}
		}
	}
}

// Find returns the item that ref names, or nil. A UID alone decides if ref has one. Otherwise it is the group and
// resource, or the group and kind, with namespace and name; of several versions the first one is returned.
func (m *Manifest) Find(ref Ref) *Item {
	if ref.UID != "" {
		return m.Index[ref.UID]
	}
	what := served{group: ref.Group, resource: ref.Resource}
	if ref.Resource == "" {
		what.kind = ref.Kind
	}
	for _, kind := range m.served[what] {
		if item := m.Kinds[kind][ref.Namespace][ref.Name]; item != nil {
			return item
		}
	}
	return nil
}

// Itermer is the interface of Item.
type Itermer interface {
	String() string
	Owners() []*Item
	Kind() *Item
	Children() []*Item
}

var _ Itermer = (*Item)(nil)

// String returns the path of the item: "deployments.apps/shop/v1/web.json". The namespace of a cluster-scoped item is
// "cluster".
func (i *Item) String() string {
	return strings.Join([]string{i.groupResource(), cmp.Or(i.Namespace, "cluster"), i.APIVersion, i.Name + ".json"}, "/")
}

// Ref returns a reference to the item.
func (i *Item) Ref() Ref {
	return Ref{Group: i.APIGroup, Resource: i.Resource, Kind: i.ItemKind, Namespace: i.Namespace, Name: i.Name, UID: i.UID}
}

// Owners returns those of the item's owners that are in its manifest.
func (i *Item) Owners() []*Item {
	var owners []*Item
	if i.Manifest != nil {
		for _, uid := range i.OwnerUIDs {
			if owner := i.Manifest.Index[uid]; owner != nil {
				owners = append(owners, owner)
			}
		}
	}
	return owners
}

// Children returns the items of the manifest that have this one as an owner, in the order in which they were added.
func (i *Item) Children() []*Item {
	if i.UID == "" || i.Manifest == nil || i.Manifest.Index[i.UID] != i {
		return nil
	}
	return slices.Clone(i.Manifest.children[i.UID])
}

// Kind returns the CustomResourceDefinition of the item's resource, or nil if it is not in the manifest, as for the
// resources of Kubernetes itself.
func (i *Item) Kind() *Item {
	if i.Manifest == nil {
		return nil
	}
	return i.Manifest.Find(definition(i))
}

func definition(item *Item) Ref {
	return Ref{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Name: item.groupResource()}
}

func (i *Item) groupResource() string {
	if i.APIGroup == "" {
		return i.Resource
	}
	return i.Resource + "." + i.APIGroup
}

func (i *Item) kindKey() string { return fmt.Sprintf("%s/%s", i.groupResource(), i.APIVersion) }
