package process

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
)

// conn is the connection that facades call: one plugin name at a supervised process. For every call it gets a process,
// sets the deadline, and finds out the cause of an error. Calls that are declared as repeatable are made a second time
// if the process dies during the first, and all are if it dies before it is called.
type conn struct {
	supervisor *Supervisor
	plugin     string
	onCall     func() // before every call; may be nil
}

// Conn returns the connection to one plugin of the process. onCall, which may be nil, is called before every call.
func (s *Supervisor) Conn(plugin string, onCall func()) grpc.ClientConnInterface {
	return &conn{supervisor: s, plugin: plugin, onCall: onCall}
}

// Invoke implements grpc.ClientConnInterface.
func (c *conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	ctx = calls.Marked(ctx)
	call := c.supervisor.pool.config.Calls.Call(method).Within(ctx)
	err := c.once(ctx, call, method, args, reply, opts)
	died, ok := errors.AsType[*calls.DiedError](err)
	if ok && (died.During == calls.DuringStart || call.Repeatable && died.During == call.Name) && ctx.Err() == nil {
		err = c.once(ctx, call, method, args, reply, opts)
	}
	return err
}

func (c *conn) once(
	ctx context.Context, call calls.Call, method string, args, reply any, opts []grpc.CallOption,
) error {
	if call.Alone {
		select {
		case c.supervisor.turn <- struct{}{}:
			defer func() { <-c.supervisor.turn }()
		case <-ctx.Done():
			return calls.Interrupted(call, context.Cause(ctx))
		}
	}
	r, err := c.acquire(ctx, call)
	if err != nil {
		return err
	}
	if call.Constant {
		err = r.known.Get(ctx, method, c.plugin, reply,
			func() error { return c.invoke(ctx, r, call, method, args, reply, opts) })
	} else {
		err = c.invoke(ctx, r, call, method, args, reply, opts)
	}
	c.release(ctx, r, call, err)
	return err
}

// invoke makes one call to a process and finds out the cause of its error.
func (c *conn) invoke(
	ctx context.Context, r *run, call calls.Call, method string, args, reply any, opts []grpc.CallOption,
) error {
	ctx, seen := c.supervisor.pool.config.Observer.Begin(ctx, c.plugin, r.path, call)
	ctx, cancel := calls.WithLimit(ctx, c.plugin, r.path, call)
	defer cancel()
	return seen.Answered(r.judge(ctx, c.plugin, call, r.conn.Invoke(ctx, method, args, reply, opts...)), reply, opts)
}

// NewStream implements grpc.ClientConnInterface. A stream is never repeated.
func (c *conn) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	ctx = calls.Marked(ctx)
	call := c.supervisor.pool.config.Calls.Call(method).Within(ctx)
	r, err := c.acquire(ctx, call)
	if err != nil {
		return nil, err
	}
	ctx, seen := c.supervisor.pool.config.Observer.Begin(ctx, c.plugin, r.path, call)
	return calls.OpenStream(ctx, r.conn, desc, method, opts, calls.StreamWatch{
		Idle:    call.Idle,
		Overdue: &calls.OverdueError{Plugin: c.plugin, Command: r.path, During: call.Name, Limit: call.Idle},
		Finish: func(ctx context.Context, err error) error {
			err = r.judge(ctx, c.plugin, call, err)
			seen.End(err)
			c.release(ctx, r, call, err)
			return err
		},
	})
}

// acquire gets a process to call. What the process writes from its start until release may belong to the call.
func (c *conn) acquire(ctx context.Context, call calls.Call) (*run, error) {
	if c.onCall != nil {
		c.onCall()
	}
	caller := calls.CallerOf(ctx)
	c.supervisor.callers.begin(caller)
	r, err := c.supervisor.acquire(ctx, c.plugin, call)
	if err == nil {
		return r, nil
	}
	c.supervisor.callers.end(caller)
	if cause := context.Cause(ctx); cause != nil {
		err = calls.Interrupted(call, cause)
	}
	c.supervisor.pool.config.Observer.Unavailable(ctx, c.plugin, c.supervisor.launch.Binary.Path, call, err)
	return nil, err
}

// release gives the process back after a call that ended with err.
func (c *conn) release(ctx context.Context, r *run, call calls.Call, err error) {
	defer c.supervisor.callers.end(calls.CallerOf(ctx))
	if err == nil {
		c.supervisor.release(r, call.Works() && ctx.Err() == nil)
		return
	}
	var overdue *calls.OverdueError
	var died *calls.DiedError
	switch {
	case errors.As(err, &overdue):
		c.supervisor.overdue(r, overdue)
		c.supervisor.release(r, false)
	case errors.As(err, &died):
		c.supervisor.lost(r)
		c.supervisor.release(r, false)
	case ctx.Err() != nil:
		c.supervisor.release(r, false)
	default:
		c.supervisor.release(r, call.Works())
	}
}

// judge returns the error for the caller of a call that ended with err. An error of the plugin itself is returned
// unchanged. If ctx has ended, the error has its cause, which may be an OverdueError. If the process has ended or its
// connection is broken, the error is a DiedError.
func (p *process) judge(ctx context.Context, plugin string, call calls.Call, err error) error {
	if err == nil {
		return nil
	}
	if cause := calls.EndOf(ctx, err); cause != nil {
		return calls.Interrupted(call, cause)
	}
	switch status.Code(err) {
	case codes.ResourceExhausted:
		return p.settings.Limits.sizeError(err)
	case codes.Unavailable:
		if !p.hasExited() && !p.stopped.Load() && p.answers(ctx) {
			return err // the plugin itself returned it
		}
		if cause := context.Cause(ctx); cause != nil {
			return calls.Interrupted(call, cause)
		}
		if !p.child.endsWithin(endTime) {
			p.killFor("its connection broke")
		}
	case codes.Canceled, codes.Internal:
		if !p.hasExited() && !p.stopped.Load() {
			return err
		}
	default:
		return err
	}
	<-p.child.done
	return p.died(plugin, call.Name)
}

// startConn is the connection for the calls of a start, to a process that gets no other calls yet.
type startConn struct {
	process  *process
	plugin   string
	observer calls.Observer
}

// Invoke implements grpc.ClientConnInterface.
func (c *startConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	call := c.process.settings.Calls.Call(method)
	ctx, seen := c.observer.Begin(ctx, c.plugin, c.process.path, call)
	err := c.process.judge(ctx, c.plugin, call, c.process.conn.Invoke(ctx, method, args, reply, opts...))
	if errors.Is(err, errStartTimeout) {
		err = &calls.OverdueError{Plugin: c.plugin, Command: c.process.path, During: call.Name,
			Limit: c.process.settings.Calls.Deadlines().Start}
	}
	return seen.Answered(err, reply, opts)
}

// NewStream implements grpc.ClientConnInterface.
func (c *startConn) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return c.process.conn.NewStream(ctx, desc, method, opts...)
}
