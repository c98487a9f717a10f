package queueadmission

import (
	"context"
	"time"
)

// Policy is the hub of the kind QueueAdmission, in its newest shape. It is safe for concurrent use. Errors are prefixed
// once with "QueueAdmission(name): ".
type Policy interface {
	Name() string
	// Decide returns the queued backups that may start now, and why each of the others waits. It is a pure function of
	// the snapshot, so the host may retry it. The decision keeps all rules: it admits queued backups only, each
	// once and no more than the limit leaves free, and every other queued backup waits, each once.
	Decide(ctx context.Context, snapshot *Snapshot) (*Decision, error)
}

// Snapshot is all that a policy may know about the queue at one moment.
type Snapshot struct {
	Config  []byte // JSON of an object, as configured for the policy; nil when nothing is
	Now     time.Time
	Limit   int      // of running and ready backups, at least 1
	Running []Backup // phase InProgress, the oldest first
	// Operating wait for operations that work on their Namespaces, the oldest first; they hold no slots.
	Operating []Backup
	// Restoring are the restores that run, described as backups of what they write, the oldest first; they hold no slots.
	Restoring []Backup
	Ready     []Backup // phase ReadyToStart, the oldest first
	Queued    []Backup // in the queue's order
}

// Free returns how many backups may be admitted, 0 when there are too many already.
func (s *Snapshot) Free() int { return max(0, s.Limit-len(s.Running)-len(s.Ready)) }

// Backup is one backup of a snapshot. Names are unique.
type Backup struct {
	Name string
	// Namespaces are resolved and sorted. They include namespaces that the backup names and that do not exist yet.
	Namespaces    []string
	AllNamespaces bool // it takes all namespaces, including future ones
	ClusterScope  ClusterScope
	Labels        map[string]string
	Annotations   map[string]string
	Created       time.Time
	Started       time.Time // zero when it does not run
	Spec          []byte    // JSON, as the user wrote it
}

// ClusterScope says which cluster-scoped objects a backup takes.
type ClusterScope int

// The scopes, from the smallest.
const (
	ClusterScopeNone    ClusterScope = iota // nothing
	ClusterScopeRelated                     // what belongs to objects in its namespaces
	ClusterScopeAll                         // all that its filters let through
)

// Decision is a policy's decision about every queued backup of a snapshot.
type Decision struct {
	// Admit are the backups that may start, in the order in which they are made ready.
	Admit []string
	// Waiting are all others, in the new order of the queue: the position of each is its index plus 1.
	Waiting []Waiting
	// RecheckAfter is when to ask again even if nothing changes; zero is never, otherwise it is at least a second.
	RecheckAfter time.Duration
}

// Waiting is a queued backup that waits, and why.
type Waiting struct {
	Name       string
	Reason     string   // for programs, UpperCamelCase
	Message    string   // for people, one line
	Blockers   []string // backups of the snapshot that it waits for
	Namespaces []string // that it has in common with them
}
