package pluginhost

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/cleat-dev/cleat/server/pluginhost/process"
	"github.com/cleat-dev/cleat/versioning"
)

// source is where plugins come from: one content of a binary or, without a supervisor, the server itself. Once it has been
// asked what it offers, nothing that others read of it changes.
type source struct {
	command    string
	builtIn    bool
	launch     *process.Launch     // of its processes
	binary     *process.Binary     // nil where it could not be opened, and for built-ins in process
	trust      *trust              // under which it may run, for as long as it does; nil for built-ins
	judged     *trust              // the last one under which it was found to be what it is; the scanner's
	identity   process.Identity    // of the file with this content that was found last; the scanner's
	supervisor *process.Supervisor // of the process that all sessions share; nil for built-ins in process

	offer    versioning.Description
	unserved []string // kinds as on the wire that it names but does not serve
	err      error    // why it offers nothing; set from the start when the binary cannot be run at all
	missing  bool     // there is no such plugin file: the lock has it, or it is the file of the lock

	holders int // generations that have it and are in use; guarded by the host's mu
}

// binary is the source of the file that path leads to now. seen is what the file was when it was found; a file that was
// replaced since is found out at the next look.
func (h *Host) binary(path string, args []string, builtIn bool, seen process.Identity) *source {
	from := &source{command: path, builtIn: builtIn, identity: seen}
	b, err := process.OpenBinary(path)
	if err != nil {
		from.err = fmt.Errorf("start plugin %s: %w", path, err)
		return from
	}
	from.identity = b.Identity()
	from.binary = b
	from.launch = &process.Launch{Binary: b, Args: args}
	if !builtIn {
		from.trust, from.judged = h.trust, h.trust
		from.launch.Check = from.trust.check
	}
	from.supervisor = h.pool.Supervise(from.launch)
	return from
}

// still tells whether a file that was found holds what the source was made from. Another file with the same content is
// the same: a mount that was renewed, or an image that was copied again, is no reason to start plugins again. The caller
// has the turn of the scanner.
func (s *source) still(file located) bool {
	if s.identity.SameContent(file.identity) {
		return true
	}
	if s.err != nil || !s.identity.MayBeCopy(file.identity) {
		return false
	}
	if now, err := s.binary.Now(); err != nil || !now.SameContent(s.binary.Identity()) {
		return false // somebody has written into it since it was started
	}
	other, err := process.OpenBinary(file.path)
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

// process tells of the process that sessions share, if it runs.
func (s *source) process() process.Process {
	if s.supervisor == nil {
		return process.Process{}
	}
	return s.supervisor.State()
}

// unfinished tells that the file is still open for writing.
func (s *source) unfinished() bool { return errors.Is(s.err, syscall.ETXTBSY) }

// retire stops the process unless somebody calls it. Somebody who has kept a hub may call it even later; then the same
// file is started once more, for that call. That is why the file is not closed here but by the garbage collector, when
// nobody can start it any more.
func (s *source) retire() {
	if s.supervisor != nil {
		s.supervisor.Retire()
	}
}
