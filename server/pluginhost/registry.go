package pluginhost

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// registry knows all processes of a host, so that closing the host leaves none behind.
type registry struct {
	life   context.Context // ends when the host closes
	cancel context.CancelCauseFunc

	mu        sync.Mutex
	shut      bool
	processes map[*process]struct{}
	active    sync.WaitGroup // processes and starts under way
}

// newRegistry begins a life that has the values of ctx and ends with close only: an operation's end does not take
// the shared processes with it.
func newRegistry(ctx context.Context) *registry {
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	return &registry{life: life, cancel: cancel, processes: map[*process]struct{}{}}
}

// begin announces a start, unless the host is closed. end follows it, when the process is gone or never came.
func (g *registry) begin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return false
	}
	g.active.Add(1)
	return true
}

func (g *registry) end() { g.active.Done() }

// add takes responsibility for a process, unless the host is closed.
func (g *registry) add(p *process) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return false
	}
	g.processes[p] = struct{}{}
	return true
}

func (g *registry) remove(p *process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.processes, p)
}

// all are the processes that can be called now.
func (g *registry) all() []*process {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Keys(g.processes))
}

// close stops everything and returns when it has ended.
func (g *registry) close() {
	g.mu.Lock()
	g.shut = true
	for p := range g.processes {
		go p.stop()
	}
	g.mu.Unlock()
	g.cancel(errClosed)
	g.active.Wait()
}
