package process

import (
	"fmt"
	"io"
	"math"
	"os"
	"sync"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/owners"
	"github.com/cleat-dev/cleat/server/internal/host/pluginlock"
)

// Binary is the open file of a plugin, or an immutable copy of it; see Seal. Every start checks and runs the open file:
// another file that takes its path later is another binary. Where the operating system cannot run an open file (other
// than Linux) the path is run.
type Binary struct {
	Path string   // absolute; argv[0] of its processes, and the path in messages
	File *os.File // what runs; others read it as well, so that it has no offset that anyone may rely on (ReadAt)
	was  Identity
	way  owners.Way // when it was opened

	mu     sync.Mutex
	sealed *Binary // its copy, nil while no process needs one
	users  int     // of sealed

	sum     string // of a sealed copy
	release func() // of a sealed copy; nil for the file itself
}

// Identity identifies one content of one file. It is comparable. It also changes with the mode, name and number of
// links of the file.
type Identity struct {
	device, inode     uint64
	size              int64
	Modified, changed int64 // in ns since 1970; changed is set by the kernel alone
}

// SameContent reports whether two identities are of the same content of the same file. Its name, mode and number of
// links do not matter.
func (i Identity) SameContent(other Identity) bool {
	i.changed, other.changed = 0, 0
	return i == other
}

// MayBeCopy reports whether other can identify another file with the same content.
func (i Identity) MayBeCopy(other Identity) bool {
	return (i.device != other.device || i.inode != other.inode) && i.size == other.size
}

// OpenBinary opens the file that path leads to now.
func OpenBinary(path string) (*Binary, error) {
	file, way, err := owners.Open(path)
	if err != nil {
		return nil, err
	}
	b := &Binary{Path: path, File: file, way: way}
	if b.was, err = b.Now(); err != nil {
		_ = file.Close()
		return nil, err
	}
	return b, nil
}

// Identity returns the identity of the file when it was opened.
func (b *Binary) Identity() Identity { return b.was }

// Now returns the current identity of the file; it differs from Identity if the file was written to.
func (b *Binary) Now() (Identity, error) {
	info, err := b.File.Stat()
	if err != nil {
		return Identity{}, fmt.Errorf("look at plugin %s: %w", b.Path, err)
	}
	return IdentityOf(info), nil
}

// Way returns the way to the open file as it is now. If the path leads elsewhere by now, it is the way by which the
// file was opened.
func (b *Binary) Way() (owners.Way, error) {
	opened, err := b.File.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at plugin %s: %w", b.Path, err)
	}
	if file, way, err := owners.Open(b.Path); err == nil {
		defer file.Close()
		if there, err := file.Stat(); err == nil && os.SameFile(opened, there) {
			return way, nil
		}
	}
	return b.way.With(opened), nil
}

// Sum returns the SHA-256 sum of the current content in the form of a lock.
func (b *Binary) Sum() (string, error) {
	if b.sum != "" {
		return b.sum, nil
	}
	sum, err := pluginlock.Sum(io.NewSectionReader(b.File, 0, math.MaxInt64))
	if err != nil {
		return "", fmt.Errorf("%s: %w", b.Path, err)
	}
	return sum, nil
}

// Seal returns an immutable copy of the file in memory, which has this sum. Processes that run at the same time share
// it; the memory is freed when all of them have closed it. Where the operating system has no such copies, Seal returns
// the file itself.
func (b *Binary) Seal(sum string) (*Binary, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sealed == nil || b.sealed.sum != sum {
		file, err := b.copyOf(sum)
		if err != nil {
			return nil, err
		}
		c := &Binary{Path: b.Path, File: file, was: b.was, way: b.way, sum: sum}
		b.sealed, b.users = c, 0
		c.release = func() { b.closeCopy(c) }
	}
	b.users++
	return b.sealed, nil
}

// closeCopy ends one use of a copy.
func (b *Binary) closeCopy(c *Binary) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sealed != c {
		return // there is another one; the garbage collector closes this one
	}
	if b.users--; b.users == 0 {
		b.sealed = nil
		if c.File != b.File {
			_ = c.File.Close()
		}
	}
}

// Close closes the file. Running processes go on, but none can be started.
func (b *Binary) Close() error {
	if b.release != nil {
		b.release()
		return nil
	}
	return b.File.Close()
}
