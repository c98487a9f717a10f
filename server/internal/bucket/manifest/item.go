package manifest

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/reference"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
	"github.com/cleat-dev/cleat/versioning/manifestwriter"
)

// Item returns the item that manifest writers get for an object of a backup: raw is its JSON as it is archived, in the
// version of its resource, and meta is what item.ParseMeta reads from it. The item has the references that its fields
// have by the table; the caller adds the references of actions, and how the object came into the backup.
func Item(
	of schema.GroupVersionResource, raw []byte, meta item.Meta, table *reference.Table,
) (*manifestwriter.Item, error) {
	made := &manifestwriter.Item{
		Group: of.Group, Version: of.Version, Resource: of.Resource, Kind: meta.Kind, Namespace: meta.Namespace,
		Name: meta.Name,
		UID:  meta.UID, Labels: meta.Labels, Annotations: meta.Annotations,
	}
	for _, owner := range meta.OwnerReferences {
		made.Owners = append(made.Owners, manifestwriter.Owner(owner))
	}
	var err error
	made.References, err = references(of.GroupResource(), raw, meta, table)
	return made, err
}

// Request adds to an item what actions have requested for it.
func Request(item *manifestwriter.Item, requested []manifest.Edge) {
	for _, edge := range requested {
		item.References = append(item.References, edge)
		id := framework.ResourceIdentifier{Group: edge.To.Group, Resource: edge.To.Resource, Namespace: edge.To.Namespace,
			Name: edge.To.Name}
		if !slices.Contains(item.Related, id) {
			item.Related = append(item.Related, id)
		}
	}
}

// document returns an object as a manifest has it: as the built-in writer makes it of what Item returns.
func document(
	of schema.GroupVersionResource, raw []byte, meta item.Meta, table *reference.Table,
) (*manifest.Item, error) {
	made := &manifest.Item{
		APIGroup: of.Group, APIVersion: of.Version, Resource: of.Resource, ItemKind: meta.Kind, Namespace: meta.Namespace,
		Name: meta.Name,
		UID:  meta.UID, Labels: meta.Labels, Annotations: meta.Annotations,
	}
	for _, owner := range meta.OwnerReferences {
		made.AddOwner(owner.APIVersion, owner.Kind, owner.Name, owner.UID, owner.Controller)
	}
	edges, err := references(of.GroupResource(), raw, meta, table)
	made.Edges = append(made.Edges, edges...)
	return made, err
}

// references returns the objects that an object refers to, without the object itself.
func references(of schema.GroupResource, raw []byte, meta item.Meta, table *reference.Table) ([]manifest.Edge, error) {
	edges, err := table.Of(of.Group, of.Resource, meta.Namespace, raw)
	return slices.DeleteFunc(edges, func(e manifest.Edge) bool {
		return e.To.Name == meta.Name && e.To.Namespace == meta.Namespace && e.To.Kind == meta.Kind && e.To.Group == of.Group
	}), err
}
