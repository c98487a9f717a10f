package pluginhost

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/directory"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/process"
	"github.com/cleat-dev/cleat/versioning"
)

// source represents the origin of plugins: one content of a binary or, without a supervisor, the server itself. It does
// not change after it has listed its plugins, except for judged and identity, which belong to the scanner.
type source struct {
	command    string
	builtIn    bool
	launch     *process.Launch
	binary     *process.Binary                 // nil where it could not be opened, and for built-ins in process
	trust      *directory.Trust                // with which it was opened; nil for built-ins
	judged     atomic.Pointer[directory.Trust] // by which it was last accepted or refused
	identity   process.Identity
	supervisor *process.Supervisor      // lists the plugins, and serves runs that share; nil for built-ins in process
	process    grpc.ClientConnInterface // used to list its plugins; nil if it cannot be asked

	asked    *offer // shared by the processes of the binary
	offer    versioning.Description
	unserved []string  // kinds as on the wire that it names but does not serve
	err      error     // why it offers nothing; set from the start when the binary cannot be run at all
	failures int       // how often the content of the file has failed in a row, with this one; see scanner.again
	failed   time.Time // the last time
	missing  bool      // there is no such plugin file: it stands for a Problem

	mu    sync.Mutex
	byRun map[string]*process.Supervisor // processes for calls outside of sessions; only those that run are needed

	holders int // generations in use that have it; guarded by the history
}

// still reports whether a file has the content that the source was made from. Another file with the same content counts
// as the same: a renewed mount or an image that was copied again does not start plugins again.
func (s *source) still(file directory.File) bool {
	if s.identity.SameContent(file.Identity) {
		return true
	}
	if s.err != nil || !s.identity.MayBeCopy(file.Identity) {
		return false
	}
	if now, err := s.binary.Now(); err != nil || !now.SameContent(s.binary.Identity()) {
		return false // it was written to since it was started
	}
	other, err := process.OpenBinary(file.Path)
	if err != nil {
		return false
	}
	defer func() { _ = other.Close() }()
	ours, err := s.binary.Sum()
	if err != nil {
		return false
	}
	theirs, err := other.Sum()
	if err != nil || ours != theirs {
		return false
	}
	s.identity = other.Identity()
	return true
}

// reconsider reports whether a source has to be asked again, because trust would now accept a binary that was refused,
// or refuse one that was accepted, or refuse it for another reason.
func (s *source) reconsider(trust *directory.Trust) bool {
	var refused *process.DistrustError
	wasRefused := errors.As(s.err, &refused)
	if s.binary == nil || trust == s.judged.Load() && (trust.Locked() || !wasRefused) {
		return false
	}
	err := trust.Judge(s.binary)
	if err == nil && s.err == nil {
		err = trust.CheckProvides(s.command, s.offer.Listed())
	}
	if (err == nil) != (refused == nil) || err != nil && err.Error() != refused.Error() {
		return true
	}
	s.judged.Store(trust) // its next process starts by these rules
	return false
}

// another returns another process of the source, for one user.
func (s *source) another() *process.Supervisor {
	launch := *s.launch
	launch.Own = true
	return s.supervisor.Another(&launch)
}

// forCall returns the process for a call outside of a session: that of its run, or a new one if it has none. A process
// ends soon after its last call.
func (s *source) forCall(run string) *process.Supervisor {
	if run == "" {
		return s.another()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.byRun, func(of string, p *process.Supervisor) bool { return of != run && !p.Busy() })
	if s.byRun == nil {
		s.byRun = map[string]*process.Supervisor{}
	}
	known, ok := s.byRun[run]
	if !ok {
		known = s.another()
		s.byRun[run] = known
	}
	return known
}

// callConn makes calls outside of a session to a plugin whose process serves one run.
type callConn struct {
	from   *source
	plugin string
}

// Invoke implements grpc.ClientConnInterface.
func (c *callConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return c.inner(ctx).Invoke(ctx, method, args, reply, opts...)
}

// NewStream implements grpc.ClientConnInterface.
func (c *callConn) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return c.inner(ctx).NewStream(ctx, desc, method, opts...)
}

func (c *callConn) inner(ctx context.Context) grpc.ClientConnInterface {
	return c.from.forCall(calls.CallerOf(ctx).Run).Conn(c.plugin, nil)
}

// state describes the process that sessions share.
func (s *source) state() process.Process {
	if s.supervisor == nil {
		return process.Process{}
	}
	return s.supervisor.State()
}

// unfinished reports whether the file could not be started because it is still open for writing.
func (s *source) unfinished() bool { return errors.Is(s.err, syscall.ETXTBSY) }

// retire stops the process unless it is in use. A caller that has kept a hub may call it even later; then the same file
// is started once more, for that call. Therefore the garbage collector closes the file, when it cannot be started any
// more.
func (s *source) retire() {
	if s.supervisor != nil {
		s.supervisor.Retire()
	}
}
