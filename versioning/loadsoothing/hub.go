package loadsoothing

import (
	"context"

	lsv1 "github.com/cleat-dev/cleat/framework/loadsoothing/v1"
)

// Policy is the hub of the kind LoadSoothing, in its newest shape. It is safe for concurrent use. Errors are prefixed
// once with "LoadSoothing(name): ".
type Policy interface {
	Name() string
	// Admit decides whether one New load may become Accepted. It is a pure function of the request, so the host may
	// retry it. The decision keeps all rules; one that admits has no other fields.
	Admit(ctx context.Context, request *Request) (*Decision, error)
}

// Request is one load, and the counts of the other loads.
type Request struct {
	Config []byte // JSON of an object, as configured for the policy; nil when nothing is
	Input
}

// The types of the newest version.
type (
	// Input is the input of a policy.
	Input = lsv1.AdmitInput
	// Load is a load to decide about.
	Load = lsv1.Load
	// Count is the number of loads under way that are equal in its other fields.
	Count = lsv1.Count
	// Decision is a policy's decision about a load.
	Decision = lsv1.AdmitOutput
)
