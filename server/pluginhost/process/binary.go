package process

import (
	"fmt"
	"io"
	"math"
	"os"

	"github.com/cleat-dev/cleat/server/pluginlock"
)

// binary is the file of a plugin, opened when it was found. What was opened is what is looked at and what runs, at
// every start: another file that takes its path, or a link on the way that leads elsewhere by now, is another
// binary. Where the operating system cannot run an open file (other than Linux) the path is run.
type Binary struct {
	Path string // absolute; argv[0] of its processes, and what is shown
	File *os.File
	was  Identity
}

// identity tells one content of one file from every other. It is comparable. A change of mode, name or number of
// links also makes it another one; who cares finds out by comparing contents.
type Identity struct {
	device, inode     uint64
	size              int64
	Modified, changed int64 // in ns since 1970; changed is set by the kernel alone
}

// sameContent reports whether a file is as it was. Its name, its mode and its number of links do not matter.
func (i Identity) SameContent(other Identity) bool {
	i.changed, other.changed = 0, 0
	return i == other
}

// mayBeCopy reports whether other can be another file with the same content.
func (i Identity) MayBeCopy(other Identity) bool {
	return (i.device != other.device || i.inode != other.inode) && i.size == other.size
}

// openBinary opens the file that path leads to now.
func OpenBinary(path string) (*Binary, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	b := &Binary{Path: path, File: file}
	if b.was, err = b.Now(); err != nil {
		_ = file.Close()
		return nil, err
	}
	return b, nil
}

// identity is what the file was when it was opened.
func (b *Binary) Identity() Identity { return b.was }

// now is what the file is by now; it differs from identity when somebody has written into it.
func (b *Binary) Now() (Identity, error) {
	info, err := b.File.Stat()
	if err != nil {
		return Identity{}, fmt.Errorf("look at plugin %s: %w", b.Path, err)
	}
	return IdentityOf(info), nil
}

// script tells whether an interpreter runs the file.
func (b *Binary) Script() bool {
	start := make([]byte, 2)
	_, err := b.File.ReadAt(start, 0)
	return err == nil && string(start) == "#!"
}

// stillThere tells whether the path leads to the open file by now.
func (b *Binary) StillThere() bool {
	opened, err := b.File.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(b.Path)
	return err == nil && os.SameFile(opened, there)
}

// sum is the SHA-256 sum of what the file holds by now, as a lock has it.
func (b *Binary) Sum() (string, error) {
	sum, err := pluginlock.Sum(io.NewSectionReader(b.File, 0, math.MaxInt64))
	if err != nil {
		return "", fmt.Errorf("%s: %w", b.Path, err)
	}
	return sum, nil
}

// Close ends it: processes that run go on, but no other can be started.
func (b *Binary) Close() error { return b.File.Close() }
