package process

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"k8s.io/utils/clock"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/output"
)

var (
	// ErrClosed is returned for calls after the pool was closed.
	ErrClosed    = errors.New("the plugin host is closed")
	errAbandoned = errors.New("its file was replaced before it had listed what it offers")
)

// Supervisor keeps one process of a binary available: it starts the process when it is needed, again when it has died,
// and stops it when nothing has used it for a while. Restarts happen nowhere else. Calls share the process; each holds
// it between acquire and release.
type Supervisor struct {
	launch *Launch
	pool   *Pool
	log    hclog.Logger

	turn    chan struct{} // holds the call that is to be alone
	callers callers
	health  *health

	mu       sync.Mutex
	idle     time.Duration // unused for so long, the process is stopped; negative means never
	current  *run          // nil when a call has to start one
	starting *start        // nil when none is under way
	pins     int           // sessions that keep the process from being idle
	over     error         // why an enclosed process, which has run, is not there any more; nil before
}

// run is a process with the state that the supervisor keeps of it.
type run struct {
	*process
	known     calls.Answers // replies that do not change while it runs
	since     time.Time
	inputs    int64 // the version of what it may have read
	users     int   // calls that hold it
	plugin    string
	during    string      // the last call, and the plugin it was for
	retired   bool        // takes no new calls and is stopped when the last one is over
	awaited   []string    // runs that wait for work in a retired process, which is stopped after them
	noted     bool        // its failure is counted
	idleTimer clock.Timer // nil when it is in use
}

// start is an attempt to get a process, which all calls that need one share.
type start struct {
	done   chan struct{}
	err    error // valid after done
	cancel context.CancelCauseFunc
}

// acquire returns a process that can be called and holds it until release. It waits for a start and for the back-off
// before it, as long as ctx allows.
func (s *Supervisor) acquire(ctx context.Context, plugin string, c calls.Call) (*run, error) {
	for {
		r, pending, err := s.currentOrStart()
		if err != nil {
			return nil, err
		}
		if r == nil {
			select {
			case <-pending.done:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			if pending.err != nil {
				return nil, pending.err
			}
			continue
		}
		if s.hold(r, plugin, c) {
			return r, nil
		}
	}
}

// currentOrStart returns the running process, or the start after which there is one.
func (s *Supervisor) currentOrStart() (*run, *start, error) {
	s.mu.Lock()
	r := s.current
	s.mu.Unlock()
	if r != nil {
		switch {
		case r.isGone(s.pool.life): // this call may block
			s.lost(r)
		case s.outdated(r):
			s.replace(r)
		default:
			return r, nil, nil
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil { // another caller was faster
		return s.current, nil, nil
	}
	if s.over != nil {
		return nil, nil, s.over
	}
	if s.starting == nil {
		wait, err := s.health.next(s.pool.config.Clock.Now(), s.launch.Binary.Path)
		if err != nil {
			return nil, nil, err
		}
		if !s.pool.Begin() {
			return nil, nil, ErrClosed
		}
		life, cancel := context.WithCancelCause(s.pool.life)
		s.starting = &start{done: make(chan struct{}), cancel: cancel}
		go s.bringUp(life, s.starting, wait)
	}
	return nil, s.starting, nil
}

// hold adds a call to the process; false if it has ended.
func (s *Supervisor) hold(r *run, plugin string, c calls.Call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != r || r.hasExited() {
		return false
	}
	r.cancelIdle()
	r.users++
	r.plugin, r.during = plugin, c.Name
	return true
}

// release ends the use of a process. worked is set if the plugin has completed a call that does the work of its kind.
func (s *Supervisor) release(r *run, worked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.users--
	if worked && s.current == r {
		s.health.worked()
	}
	if r.users == 0 && r.retired && len(r.awaited) == 0 {
		go r.stop()
		return
	}
	s.rest(r)
}

// Retire stops the process now or as soon as nothing uses it. A later call starts it again, for a moment.
func (s *Supervisor) Retire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = retiredIdle
	s.current.cancelIdle()
	s.rest(s.current)
}

// Stop stops the process, which must have no calls, and returns when it has ended.
func (s *Supervisor) Stop() {
	s.mu.Lock()
	pending := s.starting
	s.mu.Unlock()
	if pending != nil { // by a call that did not wait for it
		pending.cancel(errAbandoned)
		<-pending.done
	}
	s.mu.Lock()
	r := s.current
	s.current = nil
	if r != nil {
		r.retired = true
		r.cancelIdle()
	}
	s.mu.Unlock()
	if r != nil {
		r.stop()
	}
}

// Abandon is Retire for a process that nothing else has called: a start that is under way is cancelled.
func (s *Supervisor) Abandon() {
	s.mu.Lock()
	if s.starting != nil {
		s.starting.cancel(errAbandoned)
	}
	s.mu.Unlock()
	s.Retire()
}

// ownIdle is the idle time of a process that serves one user.
const ownIdle = time.Second

// retiredIdle is the idle time of a process whose file was replaced.
const retiredIdle = 100 * time.Millisecond

// cancelIdle stops the idle timer. The caller holds mu of the supervisor.
func (r *run) cancelIdle() {
	if r != nil && r.idleTimer != nil {
		r.idleTimer.Stop()
		r.idleTimer = nil
	}
}

// rest starts the idle timer if nothing uses the process. The caller holds mu.
func (s *Supervisor) rest(r *run) {
	if r == nil || s.current != r || r.users > 0 || s.pins > 0 || s.idle < 0 || r.idleTimer != nil {
		return
	}
	// Some clocks call the function in this goroutine, which holds mu, so stopIdle needs a goroutine of its own.
	r.idleTimer = s.pool.config.Clock.AfterFunc(s.idle, func() { go s.stopIdle(r) })
}

// stopIdle stops a process that nothing has used for the idle time.
func (s *Supervisor) stopIdle(r *run) {
	s.mu.Lock()
	if s.current != r || r.users > 0 || s.pins > 0 || r.idleTimer == nil {
		s.mu.Unlock()
		return
	}
	s.current, r.retired = nil, true
	s.mu.Unlock()
	s.log.Debug("stopping idle plugin process", "pid", r.child.ID())
	r.stop()
}

// bringUp makes one attempt to start a process, after wait.
func (s *Supervisor) bringUp(life context.Context, attempt *start, wait time.Duration) {
	p, inputs, err := s.startAfter(life, wait)
	attempt.cancel(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(attempt.done)
	s.starting = nil
	if err != nil {
		s.pool.End()
		attempt.err = err
		level := hclog.Error
		if errors.Is(err, syscall.ETXTBSY) || errors.Is(err, errAbandoned) { // the host looks at the file again
			level = hclog.Debug
		}
		s.log.Log(level, "cannot start plugin process", "error", err)
		if !errors.As(err, new(*refusedError)) {
			s.fail(calls.FailureStart, 0, err)
		}
		return
	}
	s.log.Debug("plugin process started", "pid", p.child.ID())
	if s.health.restarted() {
		s.pool.config.Observer.Metrics.Restarted(s.launch.Binary.Path)
	}
	r := &run{process: p, since: s.pool.config.Clock.Now(), inputs: inputs}
	s.current = r
	if s.launch.Enclosure != nil {
		s.over = ErrClosed
	}
	go s.watch(r)
	s.rest(r)
}

// startAfter starts a process after wait. It returns the version of what the process may have read.
func (s *Supervisor) startAfter(life context.Context, wait time.Duration) (p *process, inputs int64, err error) {
	if wait > 0 {
		timer := s.pool.config.Clock.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-life.Done():
			return nil, 0, context.Cause(life)
		}
	}
	inputs = s.pool.config.Inputs.Version()
	ctx, cancel := startContext(life, s.pool.config.Calls.Deadlines().Start)
	defer cancel()
	p, err = startChecked(ctx, s.launch, &s.pool.config, &output.Output{
		Pass: s.line, PerSecond: s.pool.config.Limits.LinesPerSecond, Clock: s.pool.config.Clock,
		Drop: func(reason string) { s.pool.config.Observer.Metrics.Dropped(s.launch.Binary.Path, reason) },
	})
	if err != nil {
		return nil, 0, err
	}
	if s.launch.OnStart != nil {
		err = s.launch.OnStart(ctx, &startConn{process: p, plugin: s.launch.Plugin, observer: s.pool.config.Observer})
		if err != nil && !errors.As(err, new(*calls.DiedError)) && !errors.As(err, new(*calls.OverdueError)) {
			err = &refusedError{err}
		}
	}
	if err == nil && !s.pool.add(p) {
		err = ErrClosed
	}
	if err != nil {
		p.stop()
		return nil, 0, err
	}
	return p, inputs, nil
}

// refusedError is an error that a plugin returned in OnStart: the plugin works, but not with the given configuration.
// It does not count as a failure.
type refusedError struct{ error }

func (e *refusedError) Unwrap() error { return e.error }

// watch waits for the end of a process and cleans up after it.
func (s *Supervisor) watch(r *run) {
	<-r.child.done
	s.mu.Lock()
	s.noteEnd(r)
	s.mu.Unlock()
	r.client.Kill() // closes the connection and removes the folder of the socket
	r.removeSocket()
	s.pool.remove(r.process)
	s.pool.End()
}

// lost counts the end of a process before the caller gets the error, so that its next call finds the failure counted.
func (s *Supervisor) lost(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteEnd(r)
}

// noteEnd removes a process that has ended from service. Its end is a failure unless the server stopped it. The caller
// holds mu.
func (s *Supervisor) noteEnd(r *run) {
	if s.current == r {
		s.current = nil
	}
	r.cancelIdle()
	if r.stopped.Load() || r.noted {
		return
	}
	r.noted = true
	<-r.child.done // its output is read
	name, during := r.plugin, r.during
	if r.users == 0 {
		name, during = "", ""
	}
	died := r.died(name, during)
	if s.over != nil {
		s.over = died
	}
	s.fail(calls.FailureDied, s.pool.config.Clock.Since(r.since), died)
	s.log.Error("plugin process died", "error", died)
}

// fail counts a failure of the binary.
func (s *Supervisor) fail(reason string, uptime time.Duration, err error) {
	open := s.health.fail(s.pool.config.Clock.Now(), uptime, err)
	s.pool.config.Observer.Metrics.Failed(s.launch.Binary.Path, reason, open)
}

// overdue removes a process that did not reply in time from service. If it is alive, its other calls may go on; new
// calls get a new process.
func (s *Supervisor) overdue(r *run, err *calls.OverdueError) {
	s.mu.Lock()
	if s.current == r {
		s.current = nil
	}
	r.retired = true
	if !r.noted {
		r.noted = true
		s.fail(calls.FailureHung, s.pool.config.Clock.Since(r.since), err)
		s.log.Error("plugin process hangs, it gets no further calls", "pid", r.child.ID(), "error", err)
	}
	s.mu.Unlock()
	go func() {
		if !r.answers(s.pool.life) {
			r.killFor("it hung in " + err.During)
		}
	}()
}

// line passes on one line of the process's output. A line that names a run goes to the log of that run, and a line that
// names none to the log of the only run that it can belong to. Those logs pass it on to the server's log, which gets
// all other lines.
func (s *Supervisor) line(l output.Line) {
	of := l.Run
	if of == "" {
		of = s.callers.only()
	}
	if log := s.pool.logOf(of); log != nil {
		path := s.launch.Binary.Path
		log.With("cmd", path, "pluginName", filepath.Base(path)).Log(l.Level, l.Message, l.Args...)
		return
	}
	s.log.Log(l.Level, l.Message, l.Args...)
}

// Drain waits until the lines are passed on that the process has written for a run, whose calls have ended.
func (s *Supervisor) Drain(of string) {
	s.mu.Lock()
	r := s.current
	s.mu.Unlock()
	caller := calls.Caller{Run: of}
	s.callers.begin(caller)
	if r != nil {
		r.drain()
	}
	s.callers.end(caller)
	s.callers.settle(of)
}

// Pin keeps the process alive when idle, until Unpin.
func (s *Supervisor) Pin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pins++
	s.current.cancelIdle() // otherwise it could fire meanwhile, and Unpin would not start another one
}

// Unpin ends Pin.
func (s *Supervisor) Unpin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pins--
	s.rest(s.current)
}

// Busy reports whether there is a process, or a start of one.
func (s *Supervisor) Busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current != nil || s.starting != nil
}

// Another returns a supervisor of another process of the same binary, whose failures count together with those of s.
func (s *Supervisor) Another(l *Launch) *Supervisor {
	other := s.pool.Supervise(l)
	other.health = s.health
	return other
}

// Runs reports whether there is a process that can be called, and that has read nothing which has changed since.
func (s *Supervisor) Runs() bool {
	s.mu.Lock()
	r := s.current
	s.mu.Unlock()
	return r != nil && !r.isGone(s.pool.life) && r.inputs == s.pool.config.Inputs.Version()
}

// Ready starts the process unless it runs.
func (s *Supervisor) Ready(ctx context.Context, plugin string) error {
	r, err := s.acquire(ctx, plugin, calls.Call{})
	if err != nil {
		return err
	}
	s.release(r, false)
	return nil
}
