package manifest

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/cli/status/layout"
	"github.com/cleat-dev/cleat/server/internal/kube/itemname"
)

// itemArgs accepts an item after the source, as one or two arguments.
func itemArgs(cmd *cobra.Command, args []string) error { return cobra.RangeArgs(2, 3)(cmd, args) }

// named is an item as the user has named it.
type named struct{ itemname.Name }

// parseItem parses RESOURCE/[NAMESPACE/]NAME, as one or two arguments.
func parseItem(args []string) (named, error) {
	name, err := itemname.Parse(args...)
	return named{name}, err
}

// maxNamed is how many items an error enumerates.
const maxNamed = 5

// find returns the item. It reads no more of the manifest than it needs to: a block if resource and namespace are
// exact.
func (n named) find(ctx context.Context, s *source) (*manifest.Item, error) {
	resource, known := itemname.BuiltIns().Resolve(n.Resource)
	if !known { // the full name of a custom resource, or another spelling
		plural, group, _ := strings.Cut(n.Resource, ".")
		resource.Resource, resource.Group = plural, group
	}
	within := manifest.Ref{Group: resource.Group, Resource: resource.Resource}
	exact := within
	exact.Namespace, exact.Name = n.Namespace, n.Name.Name
	refs := []manifest.Ref{exact}
	if n.AnyNamespace {
		refs = append(refs, within)
	}
	if !known {
		refs = append(refs, manifest.Ref{})
	}
	for _, ref := range refs {
		found, err := n.search(s.Of(ctx, ref))
		if len(found) == 1 || err != nil {
			return first(found), err
		}
		if len(found) > 1 {
			var names []string
			for _, item := range found {
				names = append(names, nameOf(item))
			}
			return nil, fmt.Errorf("%s: several items have this name, say which: %s", layout.OneLine(s.name),
				layout.Abbreviate(names, maxNamed, ", "))
		}
		if s.indexed == nil {
			break // all items were looked at
		}
	}
	return nil, fmt.Errorf("%s has no item %s", layout.OneLine(s.name), layout.OneLine(n.String()))
}

// search returns the items that have the name; one of several versions of an item.
func (n named) search(items func(func(*manifest.Item, error) bool)) ([]*manifest.Item, error) {
	var found []*manifest.Item
	for item, err := range items {
		if err != nil {
			return nil, err
		}
		if last := len(found) - 1; n.matches(item) && (last < 0 || nameOf(found[last]) != nameOf(item)) {
			found = append(found, item)
		}
	}
	return found, nil
}

func (n named) matches(item *manifest.Item) bool {
	return item.Name == n.Name.Name && n.In(item.Namespace) &&
		n.Is(groupResource(item), item.APIVersion, item.ItemKind, item.Namespace != "")
}

func first(items []*manifest.Item) *manifest.Item {
	if len(items) == 0 {
		return nil
	}
	return items[0]
}

// nameOf returns the name of an item for people and for the commands: "deployments.apps/shop/web".
func nameOf(item *manifest.Item) string { return nameOfRef(item.Ref()) }

// nameOfRef returns the name of the target of a reference, as far as it is known.
func nameOfRef(ref manifest.Ref) string {
	var parts []string
	for _, part := range []string{resourceOfRef(ref), ref.Namespace, ref.Name} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if ref.Name == "" && ref.UID != "" {
		parts = append(parts, "uid:"+ref.UID)
	}
	return layout.OneLine(strings.Join(parts, "/"))
}

// resourceOfRef returns the resource, or else the kind, with the group: "deployments.apps".
func resourceOfRef(ref manifest.Ref) string {
	name := cmp.Or(ref.Resource, ref.Kind)
	if name != "" && ref.Group != "" {
		name += "." + ref.Group
	}
	return name
}
