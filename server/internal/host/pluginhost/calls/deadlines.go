package calls

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Deadlines bounds how long a plugin may take. Zero takes the default, negative means no limit. The caller's own
// context bounds every call as well.
type Deadlines struct {
	// Start is the time from starting a process until it can be called, Init included. Default 60 s, as in go-plugin.
	Start time.Duration
	// Query bounds calls that need no work (AppliesTo, ListPlugins, Progress, Cancel, readiness), and the decisions of
	// policies. Default 60 s.
	Query time.Duration
	// Execute bounds calls that work on an item. Plugins block in them for as long as a snapshot takes, and Velero sets no
	// limit at all, so this one only has to catch a plugin that hangs. Default 4 h.
	Execute time.Duration
	// Kinds sets another limit for the work of some kinds, by the kind's name whatever its version, e.g.
	// "BackupItemAction". It replaces Execute and Query for the calls that do the kind's work, the 10 min for a unary call
	// of a store, the 10 min between two messages of a stream, and the 2 min for those about one object of a store. Calls
	// that need no work keep Query.
	Kinds map[string]time.Duration
}

// transfer is the limit for unary calls of stores and snapshotters, and for the time in which a plugin neither receives
// nor sends the next message of a stream, unless versioning.Call.Silence is shorter. Time that the host takes does not
// count, and a stream as a whole has no limit.
const transfer = 10 * time.Minute

func (d Deadlines) withDefaults() Deadlines {
	d.Start = cmp.Or(d.Start, time.Minute)
	d.Query = cmp.Or(d.Query, time.Minute)
	d.Execute = cmp.Or(d.Execute, 4*time.Hour)
	return d
}

type deadlineKey struct{}

// WithDeadline returns a context whose calls are bounded by limit instead of by Deadlines: a unary call as a whole, a
// stream by the time between two messages. Negative means no limit. It is for plugins that have a deadline of their
// own.
func WithDeadline(ctx context.Context, limit time.Duration) context.Context {
	return context.WithValue(ctx, deadlineKey{}, limit)
}

// Within returns the call with the limit that WithDeadline has set in ctx, if any.
func (c Call) Within(ctx context.Context) Call {
	if limit, ok := ctx.Value(deadlineKey{}).(time.Duration); ok {
		c.Limit, c.Idle = limit, limit
	}
	return c
}

// WithLimit bounds a call by its limit; cancel must be called when the call has ended. The context has no deadline of
// its own, because gRPC would send the deadline to the plugin. The cancellation reaches the plugin anyway.
func WithLimit(ctx context.Context, plugin, command string, call Call) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if call.Limit < 0 {
		return ctx, func() { cancel(nil) }
	}
	timer := time.AfterFunc(call.Limit, func() {
		cancel(&OverdueError{Plugin: plugin, Command: command, During: call.Name, Limit: call.Limit})
	})
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}

// Interrupted returns the error of a call that ended because its context did.
func Interrupted(call Call, cause error) error {
	var overdue *OverdueError
	if errors.As(cause, &overdue) {
		return overdue
	}
	return fmt.Errorf("%s: %w", call.Name, cause)
}

// EndOf returns the cause of the end of ctx, nil if it has not ended. The plugin may notice a deadline shortly before
// the server does.
func EndOf(ctx context.Context, err error) error {
	if status.Code(err) == codes.DeadlineExceeded {
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < time.Second {
			<-ctx.Done()
		}
	}
	return context.Cause(ctx)
}
