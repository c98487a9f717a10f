package operation

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/cleat-dev/cleat/framework"
)

// Digest identifies the operations of a backup or restore, independent of their states. It is kept in the cluster, so
// that a client with write access to the bucket cannot have operations of another owner polled or cancelled, or
// additional objects backed up.
func Digest(all []Operation) string {
	type identity struct {
		Action, ID string
		Item       framework.ResourceIdentifier
		Post       []framework.ResourceIdentifier `json:",omitempty"`
	}
	sorted := slices.SortedFunc(slices.Values(all), Operation.Compare)
	sum := sha256.New()
	encoder := json.NewEncoder(sum)
	for _, o := range sorted {
		_ = encoder.Encode(identity{o.Action, o.ID, o.Item, o.PostOperationItems}) // cannot fail for strings and a hash
	}
	return hex.EncodeToString(sum.Sum(nil))
}
