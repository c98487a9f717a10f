package process

import (
	"fmt"
	"io"
	"math"
	"os"

	"github.com/cleat-dev/cleat/server/pluginlock"
)

// Binary is the file of a plugin, opened when it was found. Every start checks and runs the opened file: another file that
// takes its path later is another binary. Where the operating system cannot run an open file (other than Linux) the path is
// run.
type Binary struct {
	Path string // absolute; argv[0] of its processes, and what is shown
	File *os.File
	was  Identity
}

// Identity identifies one content of one file. It is comparable. It also changes with the mode, name and number of links of
// the file.
type Identity struct {
	device, inode     uint64
	size              int64
	Modified, changed int64 // in ns since 1970; changed is set by the kernel alone
}

// SameContent reports whether two identities are of the same content of the same file. Its name, mode and number of links do
// not matter.
func (i Identity) SameContent(other Identity) bool {
	i.changed, other.changed = 0, 0
	return i == other
}

// MayBeCopy reports whether other can be that of another file with the same content.
func (i Identity) MayBeCopy(other Identity) bool {
	return (i.device != other.device || i.inode != other.inode) && i.size == other.size
}

// OpenBinary opens the file that path leads to now.
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

// Identity returns what the file was when it was opened.
func (b *Binary) Identity() Identity { return b.was }

// Now returns what the file is now; it differs from Identity if the file was written to.
func (b *Binary) Now() (Identity, error) {
	info, err := b.File.Stat()
	if err != nil {
		return Identity{}, fmt.Errorf("look at plugin %s: %w", b.Path, err)
	}
	return IdentityOf(info), nil
}

// Script reports whether an interpreter runs the file.
func (b *Binary) Script() bool {
	start := make([]byte, 2)
	_, err := b.File.ReadAt(start, 0)
	return err == nil && string(start) == "#!"
}

// StillThere reports whether the path still leads to the open file.
func (b *Binary) StillThere() bool {
	opened, err := b.File.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(b.Path)
	return err == nil && os.SameFile(opened, there)
}

// Sum returns the SHA-256 sum of what the file holds now, as a lock has it.
func (b *Binary) Sum() (string, error) {
	sum, err := pluginlock.Sum(io.NewSectionReader(b.File, 0, math.MaxInt64))
	if err != nil {
		return "", fmt.Errorf("%s: %w", b.Path, err)
	}
	return sum, nil
}

// Close closes the file. Running processes go on, but none can be started.
func (b *Binary) Close() error { return b.File.Close() }
