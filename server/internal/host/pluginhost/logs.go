package pluginhost

import (
	"context"
	"slices"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
)

// ForRun returns a context for calls on behalf of a run, e.g. to the object store of a location. What plugins log for
// them goes to the log of the run, if that is open. Sessions make all their calls so.
func ForRun(ctx context.Context, run string) context.Context {
	return calls.WithCaller(ctx, calls.Caller{Run: run})
}

// ForOperations is ForRun for calls about operations, on which the process works between the calls too: until the log
// of the run is closed, no other run gets a line of the process that may be about them.
func ForOperations(ctx context.Context, run string) context.Context {
	return calls.WithCaller(ctx, calls.Caller{Run: run, Waits: true})
}

// logs are the open logs of runs, by the identities of the runs.
type logs struct {
	others func(run string) hclog.Logger // Config.Logs

	mu       sync.RWMutex
	sessions map[string]*Session
}

func (l *logs) add(s *Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sessions == nil {
		l.sessions = map[string]*Session{}
	}
	l.sessions[s.run] = s
}

// attach keeps a process for a run as long as the run has a session.
func (l *logs) attach(run string, to *process.Supervisor) {
	l.mu.RLock()
	s := l.sessions[run]
	l.mu.RUnlock()
	if s != nil {
		s.attach(to)
	}
}

// remove removes the log of a session, unless a later session of the run has begun.
func (l *logs) remove(s *Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sessions[s.run] == s {
		delete(l.sessions, s.run)
	}
}

// of returns the open log of a run, nil if there is none.
func (l *logs) of(run string) hclog.Logger {
	l.mu.RLock()
	s := l.sessions[run]
	l.mu.RUnlock()
	switch {
	case s != nil:
		return s.log
	case l.others != nil:
		return l.others(run)
	}
	return nil
}

// routed is the logger of built-ins in process. A line that names its run goes to the log of that run.
type routed struct {
	hclog.Logger
	logs *logs
	with []any
}

// With implements hclog.Logger.
func (r routed) With(args ...any) hclog.Logger {
	if len(args) == 2 && args[0] == hostapi.RunKey {
		if run, ok := args[1].(string); ok {
			if log := r.logs.of(run); log != nil {
				return log.With(r.with...)
			}
		}
		return r.Logger
	}
	r.Logger, r.with = r.Logger.With(args...), slices.Concat(r.with, args)
	return r
}
