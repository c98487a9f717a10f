package pluginhost

import (
	"cmp"
	"context"
	"crypto/rand"
	"maps"
	"sync"

	"github.com/hashicorp/go-hclog"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
)

// Session is the view that one run has of the plugins. It has the plugins that existed when the run began, even if
// their files are replaced later. Sessions share the processes of plugins that allow it, and each has its own of the
// others. A session has the log of the run, and keeps the replies to AppliesTo.
type Session struct {
	host    *Host
	log     hclog.Logger
	run     string // identity of the run, which the lines of plugins name
	plugins *generation

	mu       sync.Mutex
	closed   bool
	builtIns grpc.ClientConnInterface // in process, logging to log; made when needed
	attached map[*process.Supervisor]struct{}
	own      map[*source]*process.Supervisor // of plugins whose process serves one run
	answers  calls.Answers                   // of AppliesTo
	spans    []trace.Span
}

// Session begins the view of a run that logs to log. run is the identity of the run, "" for one that has none
// elsewhere. Until Close, what plugins write for the run goes to log instead of the host's log; log is expected to pass
// it on to the host's log. Plugins that are built on the framework mark the lines of a call with the run that made it.
// A line without a mark belongs to the run only if no other run has a call in that process at the time, or waits for
// its work there.
func (h *Host) Session(run string, log hclog.Logger) *Session {
	s := &Session{
		host: h, log: log, run: cmp.Or(run, rand.Text()), plugins: h.history.hold(),
		attached: map[*process.Supervisor]struct{}{}, own: map[*source]*process.Supervisor{},
	}
	h.logs.add(s)
	for _, of := range h.locations.processesOf(s.run) { // a run may open its location before
		s.attach(of)
	}
	return s
}

// Trace begins the span of the run that the session is for, e.g. "Backup" and "velero/nightly". It lasts until Close.
// Calls that are made with the returned context are children of that span and name the run. Without a tracer the
// context is ctx.
func (s *Session) Trace(ctx context.Context, kind, name string) context.Context {
	if s.host.observer.Tracer == nil {
		return ctx
	}
	ctx, span := calls.StartRun(ctx, s.host.observer.Tracer, kind, name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		span.End()
	}
	s.spans = append(s.spans, span)
	return ctx
}

// Close ends the forwarding of the plugins' lines to the session's log, after the lines that they have written so far,
// ends its own processes, and lets those end whose files have been replaced. Calls after Close work but are not logged
// here.
func (s *Session) Close() {
	s.mu.Lock()
	attached, own, spans, again := s.attached, maps.Clone(s.own), s.spans, s.closed
	s.closed, s.attached = true, nil
	s.mu.Unlock()
	for _, span := range spans {
		span.End()
	}
	for supervised := range attached {
		supervised.Drain(s.run)
		supervised.Unpin()
	}
	for _, supervised := range own {
		supervised.Retire()
	}
	if !again {
		s.host.logs.remove(s)
		s.host.history.leave(s.plugins)
	}
}

// attach keeps a process alive when idle, until Close.
func (s *Session) attach(to *process.Supervisor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, done := s.attached[to]; done || s.closed {
		return
	}
	s.attached[to] = struct{}{}
	to.Pin()
}

// processOf returns the process of a source that serves the run.
func (s *Session) processOf(from *source) *process.Supervisor {
	if !from.offer.PerRun {
		return from.supervisor
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	own, ok := s.own[from]
	if !ok {
		own = from.another()
		s.own[from] = own
	}
	return own
}

// builtInServices returns the built-ins of this session: instances that log to its log.
func (s *Session) builtInServices() grpc.ClientConnInterface {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.builtIns == nil {
		services, err := s.host.builtIns.instantiate(s.log)
		if err != nil { // New has tried the same
			s.builtIns = brokenConn{status.Error(codes.Internal, err.Error())}
		} else {
			s.builtIns = services
		}
	}
	return s.builtIns
}

// sessionConn makes calls on behalf of the run. It remembers the replies to constant calls: the selector of an action
// holds for a whole run, even if its process is restarted.
type sessionConn struct {
	session *Session
	plugin  string
	inner   grpc.ClientConnInterface
}

// Invoke implements grpc.ClientConnInterface.
func (c *sessionConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	ctx = ForRun(ctx, c.session.run)
	ask := func() error { return c.inner.Invoke(ctx, method, args, reply, opts...) }
	if !c.session.host.table.Call(method).Constant {
		return ask()
	}
	return c.session.answers.Get(ctx, method, c.plugin, reply, ask)
}

// NewStream implements grpc.ClientConnInterface.
func (c *sessionConn) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return c.inner.NewStream(ForRun(ctx, c.session.run), desc, method, opts...)
}

// brokenConn fails every call with its error.
type brokenConn struct{ err error }

// Invoke implements grpc.ClientConnInterface.
func (c brokenConn) Invoke(context.Context, string, any, any, ...grpc.CallOption) error { return c.err }

// NewStream implements grpc.ClientConnInterface.
func (c brokenConn) NewStream(
	context.Context, *grpc.StreamDesc, string, ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return nil, c.err
}
