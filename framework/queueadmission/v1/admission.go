package v1

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/internal/register"
)

// QueueAdmission is the interface that an author implements.
type QueueAdmission interface {
	// Decide returns which of the queued backups may start now, and why each of the others waits.
	//
	// It is a pure function of its input and of the configuration that the policy was made with: the same input has the
	// same output, whichever process is called, and whatever the calls before were. The server calls it whenever something
	// has changed that the input shows, and may call it for no reason; calls for one queue do not overlap. ctx ends at
	// the server's deadline for decisions, which is short: the whole queue waits for the decision.
	//
	// An error, a nil output, or one that breaks a rule of DecideOutput changes nothing in the queue; the server reports
	// it and calls again, or lets a built-in policy decide, as it is configured.
	Decide(ctx context.Context, input *DecideInput) (*DecideOutput, error)
}

// Register registers the policy that newPolicy makes under name, "example.io/office-hours". See framework.Setup for
// when newPolicy is called, and framework.WithConfig for policies that users can configure.
func Register(
	name string, newPolicy func(context.Context, *framework.Setup) (QueueAdmission, error), options ...framework.Option,
) framework.Registration {
	return register.New(Kind(), name, newPolicy, options)
}
