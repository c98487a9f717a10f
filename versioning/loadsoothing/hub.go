package loadsoothing

import (
	"context"
	"time"
)

// Policy is the hub of the kind LoadSoothing, in its newest shape. It is safe for concurrent use. Errors are prefixed
// once with "LoadSoothing(name): ".
type Policy interface {
	Name() string
	// Admit decides whether one New load may become Accepted. It is a pure function of the request, so the host may
	// retry it.
	Admit(ctx context.Context, request *Request) (*Decision, error)
}

// Request is one load, and the counts of the other loads.
type Request struct {
	Config []byte // JSON of an object, as configured for the policy; nil when nothing is
	Now    time.Time
	Limit  int // prepareQueueLength; 0 when it is not configured
	Load   Load
	Counts []Count
}

// Load is a load that asks to be accepted.
type Load struct {
	Kind    string // of its custom resource, "DataUpload"
	Name    string
	Node    string // empty when not known yet
	Created time.Time
	Ahead   int // New loads that are older

	StorageClass string // empty when the volume has none or it is not known
	Namespace    string // of the volume claim or pod
	Bytes        int64  // size of the volume; 0 when not known
	Owner        string // name of its Backup or Restore; empty when there is none
}

// Count is the number of loads under way that are equal in what it says of them.
type Count struct {
	Kind     string
	Node     string // empty for those whose node is not known yet
	Accepted int
	Prepared int

	StorageClass, Namespace, Owner string // as in Load
	Bytes                          int64  // size of these volumes, as far as it is known
}

// Decision is a policy's decision about a load.
type Decision struct {
	Admitted bool
	// Reason is why the load was not admitted, one line for people; empty when it was admitted.
	Reason string
	// RetryAfter is when to ask again if the load was not admitted, at most MaxRetryAfter; zero leaves that to the host.
	RetryAfter time.Duration
}

// MaxRetryAfter is the longest time after which a load must ask again.
const MaxRetryAfter = time.Hour
