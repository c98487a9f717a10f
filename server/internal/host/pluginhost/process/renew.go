package process

import (
	"slices"
	"time"
)

// awaitedPause is the time between two looks whether a run still waits for work in a process that was replaced.
const awaitedPause = time.Second

// outdated reports whether a process may have read what has changed, and can be replaced.
func (s *Supervisor) outdated(r *run) bool {
	return !s.launch.Own && s.launch.Enclosure == nil && r.inputs != s.pool.config.Inputs.Version()
}

// replace removes a process from service. It is stopped when its calls are over, and no run waits any more for work that
// goes on in it.
func (s *Supervisor) replace(r *run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != r {
		return
	}
	s.log.Info("plugin process is replaced, because files that it may have read have changed", "pid", r.child.ID())
	s.current, r.retired, r.awaited = nil, true, s.callers.waiting()
	if r.idleTimer != nil {
		r.idleTimer.Stop()
		r.idleTimer = nil
	}
	switch {
	case len(r.awaited) > 0:
		go s.stopAfterAwaited(r)
	case r.users == 0:
		go r.stop()
	}
}

// stopAfterAwaited stops a replaced process when the runs that wait for its work do so no longer.
func (s *Supervisor) stopAfterAwaited(r *run) {
	ticker := time.NewTicker(awaitedPause)
	defer ticker.Stop()
	for slices.ContainsFunc(r.awaited, s.callers.isOpen) {
		select {
		case <-r.child.exited:
			return
		case <-ticker.C:
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.awaited = nil
	if r.users == 0 {
		go r.stop()
	}
}
