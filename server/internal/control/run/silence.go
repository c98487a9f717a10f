package run

import (
	"context"
	"sync"
	"time"

	"github.com/cleat-dev/cleat/server/internal/kube/waits"
)

// quiet is how long an object store works on a call before that is a wait.
const quiet = 5 * time.Second

// silence is the wait for an object store that does not answer a call. It is safe for concurrent use.
type silence struct {
	ctx  context.Context
	what string

	mu    sync.Mutex
	timer *time.Timer
	wait  *waits.Wait // nil unless the call waits
	ended bool
}

// watch returns the silence of a call, which begins now. end must be called.
func (o *outage) watch(ctx context.Context) *silence {
	s := &silence{ctx: ctx, what: o.what}
	s.timer = time.AfterFunc(quiet, s.begin)
	return s
}

func (s *silence) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended && s.wait == nil {
		s.wait = waits.Begin(s.ctx, "%s to answer", s.what)
	}
}

// pause is called when the object store shows that it works.
func (s *silence) pause() {
	s.timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wait != nil {
		s.wait.End()
		s.wait = nil
	}
}

// resume is called when it is the turn of the object store again.
func (s *silence) resume() { s.timer.Reset(quiet) }

// end is called when the call has ended.
func (s *silence) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.pause()
}
