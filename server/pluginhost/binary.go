package pluginhost

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
type binary struct {
	path string // absolute; argv[0] of its processes, and what is shown
	file *os.File
	was  identity
}

// identity tells one content of one file from every other. It is comparable. A change of mode, name or number of
// links also makes it another one; who cares finds out by comparing contents.
type identity struct {
	device, inode     uint64
	size              int64
	modified, changed int64 // in ns since 1970; changed is set by the kernel alone
}

// sameContent reports whether a file is as it was. Its name, its mode and its number of links do not matter.
func (i identity) sameContent(other identity) bool {
	i.changed, other.changed = 0, 0
	return i == other
}

// mayBeCopy reports whether other can be another file with the same content.
func (i identity) mayBeCopy(other identity) bool {
	return (i.device != other.device || i.inode != other.inode) && i.size == other.size
}

// openBinary opens the file that path leads to now.
func openBinary(path string) (*binary, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	b := &binary{path: path, file: file}
	if b.was, err = b.now(); err != nil {
		_ = file.Close()
		return nil, err
	}
	return b, nil
}

// identity is what the file was when it was opened.
func (b *binary) identity() identity { return b.was }

// now is what the file is by now; it differs from identity when somebody has written into it.
func (b *binary) now() (identity, error) {
	info, err := b.file.Stat()
	if err != nil {
		return identity{}, fmt.Errorf("look at plugin %s: %w", b.path, err)
	}
	return identityOf(info), nil
}

// script tells whether an interpreter runs the file.
func (b *binary) script() bool {
	start := make([]byte, 2)
	_, err := b.file.ReadAt(start, 0)
	return err == nil && string(start) == "#!"
}

// stillThere tells whether the path leads to the open file by now.
func (b *binary) stillThere() bool {
	opened, err := b.file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(b.path)
	return err == nil && os.SameFile(opened, there)
}

// sum is the SHA-256 sum of what the file holds by now, as a lock has it.
func (b *binary) sum() (string, error) {
	sum, err := pluginlock.Sum(io.NewSectionReader(b.file, 0, math.MaxInt64))
	if err != nil {
		return "", fmt.Errorf("%s: %w", b.path, err)
	}
	return sum, nil
}

// Close ends it: processes that run go on, but no other can be started.
func (b *binary) Close() error { return b.file.Close() }
