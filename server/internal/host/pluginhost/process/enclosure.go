package process

import (
	"errors"
	"os"
	"sync"
	"time"
)

// Enclosure is what a process sees of the file system, in a mount namespace of its own whose root directory is empty
// but for:
//
//   - a copy of the binary at its path, and the directory of what came with it: .NAME beside a binary called NAME
//   - the programs and libraries of the host, the certificates that it trusts, and what it needs to resolve names;
//     nothing can be written there
//   - /dev/null, zero, full, random and urandom
//   - /tmp, which is empty, private and removed with the process
//   - Mounts
//
// While the process runs, files are attached to places among Mounts, and detached.
//
// There is no /proc. The process has only the capabilities that it needs to read and write the files of all users, and
// cannot get others. An enclosure serves one process; it needs Linux 5.10, and a host with the capabilities SYS_ADMIN
// and SYS_CHROOT.
type Enclosure struct {
	Mounts      []Mount
	Environment []string // in addition to that of all processes, "NAME=value"
	// CleanUp is how long the process may take to end after it was told to.
	CleanUp time.Duration

	mu        sync.Mutex
	namespace *os.File // of the mounts of the process; nil unless it runs
}

// keep keeps the mount namespace of the process, until forget.
func (e *Enclosure) keep(namespace *os.File) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.namespace = namespace
}

// forget closes the mount namespace of a process that has ended.
func (e *Enclosure) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.namespace != nil {
		_ = e.namespace.Close()
		e.namespace = nil
	}
}

var errEnded = errors.New("the process does not run")

// Mount is a file or directory of the host in an enclosure. Mounts of the host below it are not there.
type Mount struct {
	Path     string   // absolute, in the enclosure
	File     *os.File // the open source, until it is mounted; nil for an empty directory, or file if it is a device
	Writable bool
	Device   bool // it is a device that can be opened
	Links    bool // symbolic links in it are followed
	Programs bool // in it can be run
}

// ErrEnclosure is wrapped by the errors of starts of processes that cannot be enclosed.
var ErrEnclosure = errors.New("a process with data of others cannot be shut off from this node; the node agent needs " +
	"root with the " +
	"capabilities SYS_ADMIN and SYS_CHROOT, no AppArmor profile that denies mounts (appArmorProfile Unconfined), and " +
	"Linux 5.10 or newer")
