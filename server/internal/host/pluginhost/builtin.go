package pluginhost

import (
	"context"

	"google.golang.org/grpc"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
)

// inServer is shown instead of the path of a binary.
const inServer = "built-in"

// bounded is a connection without a supervisor. It sets the deadlines of calls and observes them.
type bounded struct {
	inner    grpc.ClientConnInterface
	plugin   string
	table    *calls.Table
	observer calls.Observer
	known    *calls.Answers // replies that do not change while the server runs
}

// builtInSet holds the plugins that are part of the server.
type builtInSet struct {
	registrations []framework.Registration
	features      []string
	table         *calls.Table
	observer      calls.Observer
	known         calls.Answers
	offer         offer
	configure     func(conn grpc.ClientConnInterface) error // new instances; see configs
	services      *inProcess                                // not of a session; nil when there are none
	logs          *logs
}

// instantiate returns new instances of all built-ins, callable in process. What they log for a run that has an open log
// goes there, and everything else to log.
func (b *builtInSet) instantiate(log hclog.Logger) (*inProcess, error) {
	services := newInProcess()
	if err := hostapi.RegisterAll(services, hostapi.Environment{Log: routed{Logger: log, logs: b.logs},
		Features: b.features}, b.registrations...); err != nil {
		return nil, err
	}
	if err := b.configure(services); err != nil {
		return nil, err
	}
	return services, nil
}

// bound returns the connection that facades call to reach a built-in among services.
func (b *builtInSet) bound(services grpc.ClientConnInterface, plugin string) *bounded {
	return &bounded{inner: services, plugin: plugin, table: b.table, observer: b.observer, known: &b.known}
}

// Invoke implements grpc.ClientConnInterface.
func (b *bounded) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	ctx = calls.Marked(ctx)
	call := b.table.Call(method).Within(ctx)
	if !call.Constant {
		return b.invoke(ctx, call, method, args, reply, opts)
	}
	return b.known.Get(ctx, method, b.plugin, reply,
		func() error { return b.invoke(ctx, call, method, args, reply, opts) })
}

func (b *bounded) invoke(
	ctx context.Context, call calls.Call, method string, args, reply any, opts []grpc.CallOption,
) error {
	ctx, seen := b.observer.Begin(ctx, b.plugin, inServer, call)
	ctx, cancel := calls.WithLimit(ctx, b.plugin, inServer, call)
	defer cancel()
	return seen.Answered(callerError(ctx, call, b.inner.Invoke(ctx, method, args, reply, opts...)), reply, opts)
}

// NewStream implements grpc.ClientConnInterface.
func (b *bounded) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	ctx = calls.Marked(ctx)
	call := b.table.Call(method).Within(ctx)
	ctx, seen := b.observer.Begin(ctx, b.plugin, inServer, call)
	inner := b.inner
	if call.GivesAway {
		inner = giver{inner}
	}
	return calls.OpenStream(ctx, inner, desc, method, opts, calls.StreamWatch{
		Idle:    call.Idle,
		Overdue: &calls.OverdueError{Plugin: b.plugin, Command: inServer, During: call.Name, Limit: call.Idle},
		Finish: func(ctx context.Context, err error) error {
			err = callerError(ctx, call, err)
			seen.End(err)
			return err
		},
	})
}

// callerError returns the error for the caller: the cause of ctx if that has ended.
func callerError(ctx context.Context, call calls.Call, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return calls.Interrupted(call, cause)
	}
	return err
}
