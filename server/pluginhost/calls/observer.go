package calls

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/versioning"
)

// How a call ended, as metrics and spans tell it.
const (
	outcomeOK          = "ok"
	outcomeError       = "error"       // the plugin answered an error
	outcomeInvalid     = "invalid"     // it answered what breaks the contract of its kind
	outcomeCancelled   = "cancelled"   // the caller gave up
	outcomeOverdue     = "overdue"     // the plugin did not answer in time
	outcomeDied        = "died"        // its process ended
	outcomeUnavailable = "unavailable" // there was no process to call
)

// observer sees every call that goes to a plugin, in a process or in the server's own, and tells metrics and traces.
// What it was not given costs nothing.
type Observer struct {
	Metrics *metrics     // nil: none
	Tracer  trace.Tracer // nil: none
}

// observation is a call under way.
type observation struct {
	observer Observer
	caller   context.Context
	plugin   string
	call     Call
	began    time.Time
	span     trace.Span // nil: none
}

// begin is called right before a call; the context that it answers is the call's. What a process is asked before
// it is known which plugins it has is not observed.
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

// answered is end for a call that ended with err, or else with a reply that has still to be found right. It gives what the
// caller is told.
func (o observation) Answered(err error, reply any, opts []grpc.CallOption) error {
	took := time.Since(o.began)
	if err == nil {
		err = versioning.Judge(reply, opts)
	}
	o.endAfter(took, err)
	return err
}

// end is called once, with what the caller is told.
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

// unavailable tells of a call that found no process.
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
