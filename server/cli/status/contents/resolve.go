package contents

import (
	"context"
	"slices"
	"sort"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework/manifest"
)

// resolve returns the items that references mean, without those that mean none: a UID decides if a reference has one,
// and otherwise the resource or kind with namespace and name. The manifest gets an index for that.
func (m *Manifest) resolve(ctx context.Context, refs []manifest.Ref) (map[manifest.Ref]*manifest.Item, error) {
	now, err := m.indexed(ctx)
	if err != nil {
		return nil, err
	}
	found := map[manifest.Ref]*manifest.Item{}
	// Most have their name too, by which their block is known.
	sought := map[manifest.Ref][]manifest.Ref{} // by resource, namespace and name
	wanted := make([]bool, len(now.blocks))
	for _, ref := range refs {
		for _, resource := range now.index.resourcesOf(ref) {
			exact := manifest.Ref{Group: ref.Group, Resource: resource, Namespace: ref.Namespace, Name: ref.Name}
			sought[exact] = append(sought[exact], ref)
			for i := max(0, firstNotBefore(now.blocks, exact)-1); i < len(now.blocks); i++ {
				if i > 0 && now.blocks[i].First.Compare(exact) > 0 {
					break
				}
				wanted[i] = true
			}
		}
	}
	err = now.each(ctx, wanted, func(item *manifest.Item) {
		exact := item.Ref()
		exact.Kind, exact.UID = "", ""
		for _, ref := range sought[exact] {
			if found[ref] == nil && (ref.UID == "" || ref.UID == item.UID) {
				found[ref] = item
			}
		}
	})
	if err != nil {
		return nil, m.failed(err)
	}
	// The others are found by their UIDs, or not at all.
	byUID := map[string][]manifest.Ref{}
	var tokens []uint32
	for _, ref := range refs {
		if ref.UID != "" && found[ref] == nil {
			byUID[ref.UID] = append(byUID[ref.UID], ref)
			tokens = append(tokens, now.index.token("uid", ref.UID))
		}
	}
	if len(byUID) == 0 {
		return found, nil
	}
	for i := range wanted {
		wanted[i] = true
	}
	if err := now.index.having(wanted, tokens); err != nil {
		return nil, m.failed(err)
	}
	err = now.each(ctx, wanted, func(item *manifest.Item) {
		for _, ref := range byUID[item.UID] {
			if found[ref] == nil {
				found[ref] = item
			}
		}
	})
	return found, m.failed(err)
}

// each passes on the items of the wanted blocks.
func (s *state) each(ctx context.Context, wanted []bool, use func(*manifest.Item)) error {
	for blocks := range together(s.blocks, wanted) {
		for item, err := range s.file.Read(ctx, blocks) {
			if err != nil {
				return err
			}
			use(item)
		}
	}
	return nil
}

// firstNotBefore returns the first block whose items are not before ref.
func firstNotBefore(blocks []manifest.Block, ref manifest.Ref) int {
	return sort.Search(len(blocks), func(i int) bool { return blocks[i].First.Compare(ref) >= 0 })
}

// resourcesOf returns the resources that a reference may mean.
func (x *index) resourcesOf(ref manifest.Ref) []string {
	switch {
	case ref.Name == "":
		return nil
	case ref.Resource != "":
		return []string{ref.Resource}
	default:
		return slices.Clone(x.kinds[groupKind{ref.Group, ref.Kind}])
	}
}

func groupResource(item *manifest.Item) schema.GroupResource {
	return schema.GroupResource{Group: item.APIGroup, Resource: item.Resource}
}
