// Package kinds is the list of the versions of the kinds for tests.
package kinds

import (
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/testkind/versioning/itemweigher"
)

// ItemWeigher estimates the size of items in a backup.
func ItemWeigher() versioning.Kind[itemweigher.Weigher] {
	return versioning.NewKind(
		itemweigher.V1(),
		itemweigher.V2(),
		itemweigher.V3(),
	)
}
