package main

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/plan"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
)

// part returns the item with a number in a manifest of trees: each namespace has one, in which an item owns two others.
func part(i int) *manifest.Item {
	namespace, n := fmt.Sprintf("team-%04d", i/perNamespace), i%perNamespace
	made := &manifest.Item{
		APIGroup: "example.io", APIVersion: "v1", Resource: "parts", ItemKind: "Part", Namespace: namespace,
		Name: fmt.Sprintf("part-%03d", n), UID: uid(i), Included: manifest.Inclusion{By: manifest.ByFilters},
	}
	if n > 0 {
		owner := (n - 1) / 2
		made.AddOwner("example.io/v1", "Part", fmt.Sprintf("part-%03d", owner), uid(i-n+owner), true)
	}
	return made
}

// order plans the restore of all parts in a manifest.
func order(path string) error {
	version := schema.GroupVersion{Group: "example.io", Version: "v1"}
	parts := discovery.Resource{GroupVersion: version, Name: "parts", Kind: "Part", Namespaced: true}
	var entries plan.Entries
	if err := read(path, func(item *manifest.Item) error {
		entries = append(entries, archive.Entry{
			GroupResource: version.WithResource(parts.Name).GroupResource(), Namespace: item.Namespace, Name: item.Name,
		})
		return nil
	}); err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b archive.Entry) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	made := plan.NewOrder(new(discovery.Snapshot).With(parts), false)
	made.AddLevel(version.WithResource(parts.Name).GroupResource(), 0, entries)
	if err := read(path, func(item *manifest.Item) error {
		made.AddEdges(item)
		return nil
	}); err != nil {
		return err
	}
	made.Complete()
	const depth = 10 // of a tree of perNamespace items
	if waves, cycles := made.Needs.Waves(); slices.Max(waves)+1 != depth || len(cycles) > 0 {
		return fmt.Errorf("the plan has %d waves and %d cycles, want %d and none", slices.Max(waves)+1, len(cycles), depth)
	}
	return nil
}
