// Package kinds is the list of the versions of the kinds that only tests know.
package kinds

import (
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/testkind/versioning/itemweigher"
)

// ItemWeigher tells how much room items take in a backup.
func ItemWeigher() versioning.Kind[itemweigher.Weigher] {
	return versioning.Kind[itemweigher.Weigher]{
		Name: "ItemWeigher",
		Versions: []versioning.Version[itemweigher.Weigher]{
			{Wire: "ItemWeigher", Number: 1, Bind: itemweigher.NewV1, Calls: itemweigher.CallsV1(), Probe: "/itemweigher.v1.ItemWeigherService/Weigh", Deprecated: "ItemWeigher version 1 goes away, use version 3"},
			{Wire: "ItemWeigherV2", Number: 2, Bind: itemweigher.NewV2, Calls: itemweigher.CallsV2(), Probe: "/itemweigher.v2.ItemWeigherService/Weigh"},
			{Wire: "ItemWeigherV3", Number: 3, Bind: itemweigher.NewV3, Calls: itemweigher.CallsV3(), Probe: "/itemweigher.v3.ItemWeigherService/Weigh"},
		},
	}
}
