package suite

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/framework/conformance/internal/process"
)

// Host runs the target when it is needed, and starts it again when it has ended. Its methods may be called
// concurrently.
type Host struct {
	suite *Suite
	// Environment is added to the usual variables. It may change only while nothing runs.
	Environment []string

	mu       sync.Mutex
	current  *Running
	prepared *grpc.ClientConn // the connection of the run that Prepare has prepared
	death    string           // how a run ended by itself, until died has returned it
}

// Conn returns the connection to the run, which it starts if necessary.
func (h *Host) Conn(ctx context.Context) (*grpc.ClientConn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.current != nil {
		if h.current.Process == nil || !h.current.Process.Ended() {
			return h.current.Conn, nil
		}
		h.death = h.current.Process.Last()
		h.stopLocked()
	}
	current, err := h.suite.Start(ctx, process.Launch{Environment: h.Environment})
	if err != nil {
		return nil, err
	}
	h.current = current
	return current.Conn, nil
}

// Prepare calls prepare with the connection, unless prepare has succeeded in this run, and returns the connection.
func (h *Host) Prepare(ctx context.Context, prepare func(*grpc.ClientConn) error) (*grpc.ClientConn, error) {
	conn, err := h.Conn(ctx)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.prepared == conn {
		return conn, nil
	}
	if err := prepare(conn); err != nil {
		return nil, err
	}
	h.prepared = conn
	return conn, nil
}

// Process returns the process of the run. It is nil if nothing runs, or if the plugin runs in this process.
func (h *Host) Process() *process.Process {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.current == nil {
		return nil
	}
	return h.current.Process
}

// Take returns the run and forgets it, so that the next call starts another. It returns nil when nothing runs.
func (h *Host) Take() *Running {
	h.mu.Lock()
	defer h.mu.Unlock()
	run := h.current
	h.current = nil
	return run
}

// Stop kills the run, so that the next call starts another.
func (h *Host) Stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopLocked()
}

func (h *Host) stopLocked() {
	if h.current != nil {
		h.current.Stop()
		h.current = nil
	}
}

// died describes how the process ended if it has ended since the last call, and returns "" otherwise. A lost
// connection is a sign that the process is about to end.
func (h *Host) died(ctx context.Context, err error) string {
	wait := time.Duration(0)
	if status.Code(err) == codes.Unavailable {
		wait = min(h.suite.Patience, process.Patience)
	}
	if p := h.Process(); p != nil && p.EndsWithin(ctx, wait) {
		h.mu.Lock()
		h.death = p.Last()
		h.stopLocked()
		h.mu.Unlock()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.death == "" {
		return ""
	}
	death := "the process ended by itself: " + h.death
	h.death = ""
	return death
}
