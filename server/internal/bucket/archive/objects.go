package archive

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Objects are objects of one type in an archive, sorted by namespace and name. They need little memory.
type Objects struct {
	archive *Archive
	gr      schema.GroupResource
	only    []int32 // positions in the Items of the type; nil for all
}

// Choose returns the objects of a type at some positions in its Items, which are sorted.
func (a *Archive) Choose(gr schema.GroupResource, positions []int32) Objects {
	if len(positions) == a.Count(gr) {
		return Objects{archive: a, gr: gr}
	}
	return Objects{archive: a, gr: gr, only: append([]int32{}, positions...)}
}

// Len returns the number of objects.
func (o Objects) Len() int {
	if o.only != nil {
		return len(o.only)
	}
	if o.archive == nil {
		return 0
	}
	return o.archive.Count(o.gr)
}

// At returns an object by its position.
func (o Objects) At(i int) Entry {
	if o.only != nil {
		i = int(o.only[i])
	}
	return o.archive.entry(o.gr, o.archive.records(o.gr)[i])
}

// Position returns the position of an object.
func (o Objects) Position(namespace, name string) (i int, found bool) {
	if o.Len() == 0 {
		return 0, false
	}
	i, found = o.archive.position(o.archive.records(o.gr), namespace, name)
	if found && o.only != nil {
		i, found = slices.BinarySearch(o.only, int32(i)) //nolint:gosec // Choose got it so
	}
	return i, found
}
