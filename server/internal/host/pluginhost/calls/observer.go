package calls

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/versioning"
)

// Outcomes of a call, as metrics and spans label them.
const (
	outcomeOK          = "ok"
	outcomeError       = "error"       // the plugin returned an error
	outcomeInvalid     = "invalid"     // its reply broke the contract of its kind
	outcomeCancelled   = "cancelled"   // the caller cancelled the call
	outcomeOverdue     = "overdue"     // the plugin did not answer in time
	outcomeDied        = "died"        // its process ended
	outcomeUnavailable = "unavailable" // there was no process to call
)

// Observer records every call to a plugin, in its process or in that of the server, in metrics and traces.
type Observer struct {
	Metrics *metrics     // nil: none
	Tracer  trace.Tracer // nil: none
}

// observation is a call that is being observed.
type observation struct {
	observer Observer
	caller   context.Context
	plugin   string
	call     Call
	began    time.Time
	span     trace.Span // nil: none
}

// Begin is called immediately before a call; the call uses the context that Begin returns. Calls that list the plugins
// of a process have an empty plugin and are not observed.
func (o Observer) Begin(ctx context.Context, plugin, command string, c Call) (context.Context, observation) {
	if o.Metrics == nil && o.Tracer == nil || plugin == "" {
		return ctx, observation{}
	}
	seen := observation{observer: o, caller: ctx, plugin: plugin, call: c, began: time.Now()}
	if o.Tracer != nil {
		ctx, seen.span = startSpan(ctx, o.Tracer, plugin, command, c)
	}
	return ctx, seen
}

// Answered ends the observation of a unary call that returned err, or a reply that has yet to be validated. It returns
// the error for the caller.
func (o observation) Answered(err error, reply any, opts []grpc.CallOption) error {
	took := time.Since(o.began)
	if err == nil {
		err = versioning.Judge(reply, opts)
	}
	o.endAfter(took, err)
	return err
}

// End ends the observation. It is called once, with the error for the caller.
func (o observation) End(err error) { o.endAfter(time.Since(o.began), err) }

func (o observation) endAfter(took time.Duration, err error) {
	if o.observer.Metrics == nil && o.observer.Tracer == nil {
		return
	}
	outcome := o.outcome(err)
	o.observer.Metrics.called(o.plugin, o.call, outcome, took)
	if o.span != nil {
		endSpan(o.span, outcome, err)
	}
}

// Unavailable records a call for which there was no process.
func (o Observer) Unavailable(ctx context.Context, plugin, command string, c Call, err error) {
	_, seen := o.Begin(ctx, plugin, command, c)
	seen.End(&unavailableError{err})
}

type unavailableError struct{ error }

func (e *unavailableError) Unwrap() error { return e.error }

func (o observation) outcome(err error) string {
	if err == nil {
		return outcomeOK
	}
	var overdue *OverdueError
	var unavailable *unavailableError
	var died *DiedError
	switch {
	case errors.Is(err, versioning.ErrInvalidReply):
		return outcomeInvalid
	case o.caller.Err() != nil && !errors.As(err, &overdue):
		return outcomeCancelled
	case errors.As(err, &unavailable):
		return outcomeUnavailable
	case errors.As(err, &overdue):
		return outcomeOverdue
	case errors.As(err, &died):
		return outcomeDied
	default:
		return outcomeError
	}
}
