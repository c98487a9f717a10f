package ledger

import (
	"hash/fnv"

	"k8s.io/apimachinery/pkg/types"
)

// Turn returns the node of the agent whose turn it is to take a load that any agent can take. All agents that read the
// same ledger get the same node, and the loads are evenly distributed. Agents for which away is true are passed over.
// Turn returns "" if no agent is left.
func (l Ledger) Turn(uid types.UID, away func(node string) bool) string {
	best, highest := "", uint64(0)
	for node := range l.Agents {
		if away(node) {
			continue
		}
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(string(uid) + "/" + node))
		if score := mix(hash.Sum64()); best == "" || score > highest || score == highest && node < best {
			best, highest = node, score
		}
	}
	return best
}

// mix spreads the bits of a hash whose inputs differ in their last bytes only.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	return h
}
