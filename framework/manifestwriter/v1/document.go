package v1

import (
	"slices"

	"github.com/cleat-dev/cleat/framework/manifest"
)

// Document returns the item as a manifest has it. It shares the item's labels and annotations.
func (i *Item) Document() *manifest.Item {
	made := &manifest.Item{
		APIGroup: i.Group, APIVersion: i.Version, Resource: i.Resource, ItemKind: i.Kind, Namespace: i.Namespace,
		Name: i.Name, UID: i.UID,
		Labels: i.Labels, Annotations: i.Annotations, Included: i.Included,
	}
	made.Edges = slices.Grow(made.Edges, len(i.Owners)+len(i.References))
	for _, owner := range i.Owners {
		made.AddOwner(owner.APIVersion, owner.Kind, owner.Name, owner.UID, owner.Controller)
	}
	made.Edges = append(made.Edges, i.References...)
	return made
}
