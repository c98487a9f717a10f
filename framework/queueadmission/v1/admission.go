package v1

import (
	"context"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/framework"
)

// QueueAdmission is the interface that an author implements.
type QueueAdmission interface {
	// Decide says which of the queued backups may start now, and why each of the others waits.
	//
	// It is a pure function: the same snapshot has the same decision, whichever process is asked, and whatever
	// was asked before. The server calls it whenever something has changed that the snapshot shows, and may
	// call it for no reason; calls for one queue do not overlap. ctx ends at the server's deadline for
	// decisions, which is short: everything in the queue waits for it.
	//
	// An error, no decision at all, or one that breaks a rule of Decision changes nothing in the queue; the
	// server says so and asks again, or has a built-in policy decide, as it is configured.
	Decide(ctx context.Context, snapshot *Snapshot) (*Decision, error)
}

// Register registers the policy that newPolicy makes under name, "example.io/office-hours". newPolicy is called at the
// first call for name; its logger writes to the server's log. A policy that takes a config says so by
// framework.WithConfigSchema.
func Register(name string, newPolicy func(hclog.Logger) (QueueAdmission, error), options ...framework.Option) framework.Registration {
	return framework.Register(Kind(), name, newPolicy, options...)
}

// Kind is the kind's name on the wire and its gRPC service.
func Kind() framework.Kind[QueueAdmission] {
	return framework.Kind[QueueAdmission]{Wire: "QueueAdmission", Bind: bind}
}
