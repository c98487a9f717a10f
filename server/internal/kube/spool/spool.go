// Package spool makes temporary files, for what may be too large for memory. A file is removed however its process ends,
// and one rule decides how much of a disk it may take.
package spool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
)

// ErrFull means that the disk of temporary files is nearly full.
var ErrFull = errors.New("the disk of temporary files is nearly full")

// File is a temporary file. One goroutine writes it, from its beginning to its end; others may call ReadAt and Size
// meanwhile.
type File struct {
	file    *os.File
	what    string // it holds
	named   bool   // Close removes the file, because the system keeps the names of open files
	place   string // how a user chooses the disk
	space   space
	written atomic.Int64
}

// New makes a temporary file in dir; "" is the system's directory of temporary files. what says for errors what the file
// holds. Close removes the file.
func New(dir, what string) (*File, error) {
	place := "--scratch-dir"
	if dir == "" {
		place = "TMPDIR"
	}
	file, err := os.CreateTemp(dir, "cleat-*")
	if err != nil {
		return nil, fmt.Errorf("make a temporary file for %s, see %s: %w", what, place, err)
	}
	f := &File{file: file, what: what, place: place, named: os.Remove(file.Name()) != nil}
	f.space = space{ask: func() (int64, bool) { return freeSpace(file) }}
	return f, nil
}

// Copy returns a temporary file with a content, at its beginning.
func Copy(dir, what string, content io.Reader) (*File, error) {
	f, err := New(dir, what)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(f, content)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Write implements io.Writer. The error wraps ErrFull if little of the disk would be left.
func (f *File) Write(p []byte) (int, error) {
	if free, enough := f.space.enough(f.written.Load()); !enough {
		return 0, fmt.Errorf("write %s to a temporary file: %w: %d bytes are free in %s after %d bytes were written, and %d "+
			"are to stay free; set %s to a directory with more space", f.what, ErrFull, free, filepath.Dir(f.file.Name()),
			f.written.Load(), f.space.stays, f.place)
	}
	n, err := f.file.Write(p)
	f.written.Add(int64(n))
	if err != nil {
		err = fmt.Errorf("write %s to a temporary file, see %s: %w", f.what, f.place, err)
	}
	return n, err
}

// Read implements io.Reader.
func (f *File) Read(p []byte) (int, error) { return f.explain(f.file.Read(p)) }

// ReadAt implements io.ReaderAt.
func (f *File) ReadAt(p []byte, offset int64) (int, error) {
	return f.explain(f.file.ReadAt(p, offset))
}

func (f *File) explain(n int, err error) (int, error) {
	if err != nil && err != io.EOF {
		err = fmt.Errorf("read the temporary file of %s: %w", f.what, err)
	}
	return n, err
}

// Seek implements io.Seeker. What is written goes to the place that Seek has chosen.
func (f *File) Seek(offset int64, whence int) (int64, error) { return f.file.Seek(offset, whence) }

// Stat returns the size and the times of the file.
func (f *File) Stat() (fs.FileInfo, error) { return f.file.Stat() }

// Size returns how many bytes were written.
func (f *File) Size() int64 { return f.written.Load() }

// Close removes the file.
func (f *File) Close() error {
	err := f.file.Close()
	if f.named {
		err = errors.Join(err, os.Remove(f.file.Name()))
	}
	if err != nil {
		return fmt.Errorf("remove the temporary file of %s: %w", f.what, err)
	}
	return nil
}
