package manifest

import (
	"iter"
	"maps"
	"slices"
)

// ChangeType is what became of an object from one backup to another.
type ChangeType string

const (
	// Added is an object that only the second backup has.
	Added ChangeType = "added"
	// Gone is an object that only the first backup has.
	Gone ChangeType = "gone"
	// Changed is an object that is described differently in the second backup.
	Changed ChangeType = "changed"
)

// Change is an object in which two backups differ.
type Change struct {
	Type   ChangeType
	Before *Item // nil for Added
	After  *Item // nil for Gone

	// What differs, for Changed: the versions of the API, the UIDs (it was created anew), the keys of labels and
	// annotations, sorted.
	Version, UID        bool
	Labels, Annotations []string
}

// Diff yields the objects in which two manifests differ, in their order. The items must be sorted, as those of a Reader
// and of Manifest.Items are (see Sorted). An object that a manifest has in several versions counts as its first one.
// Nothing comes after an error.
func Diff(before, after iter.Seq2[*Item, error]) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		for items, err := range merge(compareObjects, ordered(before), ordered(after)) {
			if err != nil {
				yield(Change{}, err)
				return
			}
			if change := difference(items[0], items[1]); change.Type != "" && !yield(change, nil) {
				return
			}
		}
	}
}

// difference returns how an object has changed; the Type is empty if it has not.
func difference(before, after *Item) Change {
	change := Change{Before: before, After: after}
	switch {
	case before == nil:
		change.Type = Added
	case after == nil:
		change.Type = Gone
	default:
		change.Version, change.UID = before.APIVersion != after.APIVersion, before.UID != after.UID
		change.Labels, change.Annotations = differing(before.Labels, after.Labels), differing(before.Annotations,
			after.Annotations)
		if change.Version || change.UID || len(change.Labels)+len(change.Annotations) > 0 {
			change.Type = Changed
		}
	}
	return change
}

// differing returns the keys that are not in both maps with the same value.
func differing(a, b map[string]string) []string {
	keys := map[string]bool{}
	for key, value := range a {
		if other, ok := b[key]; !ok || other != value {
			keys[key] = true
		}
	}
	for key := range b {
		if _, ok := a[key]; !ok {
			keys[key] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// Shared is an object that several backups have.
type Shared struct {
	Items []*Item // one for each manifest, nil where it does not have the object
}

// Overlap yields the objects that at least two of the manifests have, in their order. See Diff for the requirements on
// the items.
func Overlap(manifests ...iter.Seq2[*Item, error]) iter.Seq2[Shared, error] {
	checked := make([]iter.Seq2[*Item, error], len(manifests))
	for i, items := range manifests {
		checked[i] = ordered(items)
	}
	return func(yield func(Shared, error) bool) {
		for items, err := range merge(compareObjects, checked...) {
			if err != nil {
				yield(Shared{}, err)
				return
			}
			having := 0
			for _, item := range items {
				if item != nil {
					having++
				}
			}
			if having > 1 && !yield(Shared{slices.Clone(items)}, nil) {
				return
			}
		}
	}
}

// Sorted returns the items of a manifest in memory for Diff and Overlap.
func Sorted(m *Manifest) iter.Seq2[*Item, error] {
	return func(yield func(*Item, error) bool) {
		for item := range m.Items() {
			if !yield(item, nil) {
				return
			}
		}
	}
}

// compareObjects compares the objects of items, without the version.
func compareObjects(a, b *Item) int { return keyOf(a).compareObjects(keyOf(b)) }

// ordered yields the items, and an error where they are not sorted.
func ordered(items iter.Seq2[*Item, error]) iter.Seq2[*Item, error] {
	return func(yield func(*Item, error) bool) {
		var last *Item
		for item, err := range items {
			if err == nil && last != nil {
				err = sorted(keyOf(last), keyOf(item))
			}
			if !yield(item, err) || err != nil {
				return
			}
			last = item
		}
	}
}
