package archive

import "cmp"

// Limits bound what Open accepts from an archive, which may come from anywhere. A zero field has its value from
// DefaultLimits.
type Limits struct {
	// TotalBytes is the size of the unpacked tar, and so of the spool file.
	TotalBytes int64
	// ItemBytes is the size of one object.
	ItemBytes int64
	// Items is the number of tar entries of any kind.
	Items int
	// PathBytes is the length of one entry's path.
	PathBytes int
}

// DefaultLimits returns limits far above what a cluster can hold, so that no archive of a Writer exceeds them: an API
// server refuses objects above 3 MiB, and the names in a path have at most 253 bytes each.
func DefaultLimits() Limits {
	return Limits{
		TotalBytes: 64 << 30,
		ItemBytes:  32 << 20,
		Items:      10_000_000,
		PathBytes:  1024,
	}
}

func (l Limits) orDefaults() Limits {
	d := DefaultLimits()
	return Limits{
		TotalBytes: cmp.Or(l.TotalBytes, d.TotalBytes),
		ItemBytes:  cmp.Or(l.ItemBytes, d.ItemBytes),
		Items:      cmp.Or(l.Items, d.Items),
		PathBytes:  cmp.Or(l.PathBytes, d.PathBytes),
	}
}
