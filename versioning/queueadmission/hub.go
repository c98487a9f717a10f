package queueadmission

import (
	"context"
	"time"

	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
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

// Snapshot is the state of the queue that a policy gets.
type Snapshot struct {
	Config []byte // JSON of an object, as configured for the policy; nil when nothing is
	Input
}

// The types of the newest version.
type (
	// Input is the state of the queue.
	Input = qav1.DecideInput
	// Backup is one backup of a snapshot. Names are unique.
	Backup = qav1.Backup
	// ClusterScope selects the cluster-scoped objects of a backup.
	ClusterScope = qav1.ClusterScope
	// Waiting is a queued backup that waits, and why.
	Waiting = qav1.Wait
)

// The scopes, from the smallest.
const (
	ClusterScopeNone    = qav1.ClusterScopeNone
	ClusterScopeRelated = qav1.ClusterScopeRelated
	ClusterScopeAll     = qav1.ClusterScopeAll
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
