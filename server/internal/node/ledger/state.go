package ledger

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// Seen is what a cache knows of a load.
type Seen struct {
	Phase   velerov1.LoadPhase
	Version string
}

// State is what a note means, given the state of its load.
type State int

const (
	// Void notes permit nothing and do not count.
	Void State = iota
	// Pending notes permit the write of Accepted, which was not seen yet.
	Pending
	// Preparing notes are those of loads that are Accepted or Prepared.
	Preparing
	// Unknown notes are those of loads that the cache does not know: it may be behind. They count.
	Unknown
)

// State returns what a note means. seen is nil for a load that the cache does not know; gone reports whether it was
// deleted.
func (n Note) State(seen *Seen, gone bool) State {
	switch {
	case seen == nil && gone:
		return Void
	case seen == nil:
		return Unknown
	case seen.Phase.IsNew() && newer(seen.Version, n.Version):
		return Void
	case seen.Phase.IsNew():
		return Pending
	case seen.Phase == velerov1.LoadPhaseAccepted, seen.Phase == velerov1.LoadPhasePrepared:
		return Preparing
	default:
		return Void
	}
}

// newer reports whether resource version a was given after b. Versions that cannot be compared, which no agent writes,
// are older than any.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}

// Newer reports whether a ConfigMap of one resource version replaces that of another.
func Newer(a, b string) bool { return b == "" || a != "" && newer(a, b) }

// Pruned returns a copy without the notes that are void.
func (l Ledger) Pruned(state func(types.UID, Note) State) Ledger {
	pruned := l.Clone()
	for uid, note := range l.Loads {
		if state(uid, note) == Void {
			delete(pruned.Loads, uid)
		}
	}
	return pruned
}
