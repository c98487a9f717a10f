package ledger

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// Seen is the state of a load in a cache.
type Seen struct {
	Phase   velerov1.LoadPhase
	Version string
}

// State is the state of a note, which follows from the state of its load.
type State int

const (
	// Void notes permit nothing and do not count.
	Void State = iota
	// Pending notes permit the write of Accepted, which is not in the cache yet.
	Pending
	// Preparing notes belong to loads that are Accepted or Prepared.
	Preparing
	// Unknown notes belong to loads that are not in the cache, or in an earlier state than the noted one, because the
	// cache is behind. They count.
	Unknown
)

// State returns the state of a note. seen is nil for a load that is not in the cache; gone reports whether it was
// deleted.
func (n Note) State(seen *Seen, gone bool) State {
	switch {
	case seen == nil && gone:
		return Void
	case seen == nil, seen.Version != n.Version && newer(n.Version, seen.Version):
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

// newer reports whether resource version a is newer than b, and true if they cannot be compared. Agents write no such
// versions.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}

// Newer reports whether a ConfigMap of resource version a replaces one of version b.
func Newer(a, b string) bool { return b == "" || a != "" && newer(a, b) }

// Pruned returns a copy without void notes.
func (l Ledger) Pruned(state func(types.UID, Note) State) Ledger {
	pruned := l.Clone()
	for uid, note := range l.Loads {
		if state(uid, note) == Void {
			delete(pruned.Loads, uid)
		}
	}
	return pruned
}
