// Package itemweigher is the kind ItemWeigher as a server would use it: the hub and the rules for replies here, and a
// facade per version beside it.
package itemweigher

import (
	"context"
	"fmt"
)

// Weigher is the hub of the kind ItemWeigher, in its newest shape. It is safe for concurrent use. Errors are prefixed
// once with "ItemWeigher(name): ".
type Weigher interface {
	Name() string
	// Weigh returns the size of each of items in backup; both are JSON of objects. There is one weight for each item.
	// Idempotent.
	Weigh(ctx context.Context, items [][]byte, backup []byte) ([]Weight, error)
}

// Weight is the size of one item.
type Weight struct {
	Bytes int64 // not negative
	Exact bool  // measured, not guessed
}

// heaviest is more than any item can weigh, in bytes: 1 PiB.
const heaviest = 1 << 50

// validate checks the weight that a plugin returned for the item at an index.
func (w Weight) validate(index int) error {
	switch {
	case w.Bytes < 0:
		return fmt.Errorf("items[%d] weighs %d bytes, want no negative number", index, w.Bytes)
	case w.Bytes > heaviest:
		return fmt.Errorf("items[%d] weighs %d bytes, want at most %d", index, w.Bytes, int64(heaviest))
	}
	return nil
}
