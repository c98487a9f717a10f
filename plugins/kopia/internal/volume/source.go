package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/kopia/kopia/fs"

	"github.com/cleat-dev/cleat/plugins/kopia/internal/repository"
)

// Options are how a volume is read.
type Options struct {
	// Unchanged is the time from which on files whose attributes have changed are read again even if they look
	// unchanged, because a program can set their times. The zero time stands for kopia's rule: a file is unchanged if its
	// size, time, mode and owner are those in the parent.
	Unchanged time.Time
	// Losses gets what the snapshot cannot have.
	Losses *Losses
	// Budget bounds how many large files are open at once.
	Budget *Budget
}

// Source returns the root of a volume that is a directory.
func Source(path string, options Options) (fs.Directory, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, &Error{err}
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("volume %s is not a directory", path)
	}
	s := &source{root: path, unchanged: options.Unchanged, losses: options.Losses, budget: options.Budget}
	return &directory{s.entry(path, filepath.Base(path), info)}, nil
}

// Survey looks for what a snapshot of a volume cannot have, without reading files.
func Survey(ctx context.Context, path string, losses *Losses) error {
	root, err := Source(path, Options{Losses: losses})
	if err != nil {
		return err
	}
	return survey(ctx, root)
}

func survey(ctx context.Context, dir fs.Directory) error {
	return fs.IterateEntries(ctx, dir, func(ctx context.Context, found fs.Entry) error {
		if below, is := found.(fs.Directory); is {
			return survey(ctx, below)
		}
		return ctx.Err()
	})
}

// source is what the entries of a volume share.
type source struct {
	root      string
	unchanged time.Time
	losses    *Losses
	budget    *Budget
}

// touched marks the mode of a file that must not be taken from the parent. It is none of the bits that are stored.
const touched = os.ModeTemporary

// margin is how much older a time of the kernel can be than that of a program.
const margin = time.Second

// entry returns an entry for the object at a path.
func (s *source) entry(path, name string, info os.FileInfo) entry {
	e := entry{source: s, path: path, name: name, FileInfo: info, mode: info.Mode()}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		e.owner = fs.OwnerInfo{UserID: stat.Uid, GroupID: stat.Gid}
		e.links = uint64(stat.Nlink) //nolint:unconvert // it has another type on other architectures
		changed := time.Unix(stat.Ctim.Unix())
		if !s.unchanged.IsZero() && info.Mode().IsRegular() && changed.After(s.unchanged.Add(-margin)) {
			e.mode |= touched
		}
	}
	return e
}

// entry is an object of a volume. It implements fs.Entry.
type entry struct {
	os.FileInfo
	source *source
	path   string
	name   string // as it is stored
	mode   os.FileMode
	owner  fs.OwnerInfo
	links  uint64
}

func (e *entry) Name() string                { return e.name }
func (e *entry) Mode() os.FileMode           { return e.mode }
func (e *entry) Owner() fs.OwnerInfo         { return e.owner }
func (e *entry) Device() fs.DeviceInfo       { return fs.DeviceInfo{} }
func (e *entry) LocalFilesystemPath() string { return "" }
func (e *entry) Close()                      {}

// directory implements fs.Directory.
type directory struct{ entry }

// Size is 0 for directories of any size.
func (d *directory) Size() int64 { return 0 }

// SupportsMultipleIterations implements fs.Directory.
func (d *directory) SupportsMultipleIterations() bool { return true }

// Child implements fs.Directory.
func (d *directory) Child(ctx context.Context, name string) (fs.Entry, error) {
	return fs.IterateEntriesAndFindChild(ctx, d, name)
}

// Iterate implements fs.Directory.
func (d *directory) Iterate(context.Context) (fs.DirectoryIterator, error) {
	opened, err := os.OpenFile(d.path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	return &iterator{of: d, opened: opened}, nil
}

// iterator implements fs.DirectoryIterator.
type iterator struct {
	of     *directory
	opened *os.File
	batch  []os.DirEntry
}

// Close implements fs.DirectoryIterator.
func (i *iterator) Close() { _ = i.opened.Close() }

// Next implements fs.DirectoryIterator.
func (i *iterator) Next(context.Context) (fs.Entry, error) {
	for {
		if len(i.batch) == 0 {
			batch, err := i.opened.ReadDir(200)
			if errors.Is(err, io.EOF) || err == nil && len(batch) == 0 {
				return nil, nil //nolint:nilnil // as fs.DirectoryIterator has it
			}
			if err != nil {
				return nil, err
			}
			i.batch = batch
		}
		next := i.batch[0]
		i.batch = i.batch[1:]
		if found := i.of.child(next); found != nil {
			return found, nil
		}
	}
}

// child returns an object of the directory; nil if a snapshot cannot have it.
func (d *directory) child(of os.DirEntry) fs.Entry {
	path := d.path + "/" + of.Name()
	info, err := os.Lstat(path)
	losses, below := d.source.losses, d.source.below(path)
	if errors.Is(err, iofs.ErrNotExist) {
		losses.add(vanished, below)
		return nil
	}
	if err != nil {
		return &unreadable{entry: entry{source: d.source, path: path, name: of.Name(), FileInfo: noInfo{of.Name()}}, err: err}
	}
	e := d.source.entry(path, repository.StoredName(of.Name()), info)
	losses.look(&e, below)
	switch info.Mode().Type() {
	case 0:
		return &file{e}
	case os.ModeDir:
		return &directory{e}
	case os.ModeSymlink:
		return &link{e}
	}
	losses.add(special, below)
	return nil
}

// below returns a path for people, relative to the volume.
func (s *source) below(path string) string {
	if len(path) > len(s.root) {
		return path[len(s.root)+1:]
	}
	return path
}

// file implements fs.File.
type file struct{ entry }

// Open implements fs.File.
func (f *file) Open(ctx context.Context) (fs.Reader, error) {
	release, err := f.source.budget.take(ctx, f.Size())
	if err != nil {
		return nil, err
	}
	opened, began, err := f.open()
	if err != nil {
		release()
		return nil, err
	}
	return &content{File: opened, of: f, release: sync.OnceFunc(func() {
		release()
		ended, err := opened.Stat()
		if err == nil && (ended.Size() != began.Size() || !ended.ModTime().Equal(began.ModTime())) {
			f.source.losses.add(changed, f.source.below(f.path))
		}
	})}, nil
}

func (f *file) open() (*os.File, os.FileInfo, error) {
	opened, err := os.OpenFile(f.path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := opened.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: it was a file, and is %v now", iofs.ErrNotExist, info.Mode())
	}
	if err != nil {
		return nil, nil, errors.Join(err, opened.Close())
	}
	return opened, info, nil
}

// content implements fs.Reader.
type content struct {
	*os.File
	of      fs.Entry
	release func()
}

// Close implements fs.Reader.
func (c *content) Close() error {
	c.release()
	return c.File.Close()
}

// Entry implements fs.Reader.
func (c *content) Entry() (fs.Entry, error) { return c.of, nil }

// link implements fs.Symlink.
type link struct{ entry }

// Readlink implements fs.Symlink.
func (l *link) Readlink(context.Context) (string, error) { return os.Readlink(l.path) }

// Resolve implements fs.Symlink. No link is followed.
func (l *link) Resolve(context.Context) (fs.Entry, error) {
	return nil, fmt.Errorf("the symbolic link %q is not followed", l.path)
}

// unreadable implements fs.ErrorEntry.
type unreadable struct {
	entry
	err error
}

// ErrorInfo implements fs.ErrorEntry.
func (u *unreadable) ErrorInfo() error { return u.err }

// noInfo is the information about an object that cannot be looked at.
type noInfo struct{ name string }

func (n noInfo) Name() string     { return n.name }
func (noInfo) Size() int64        { return 0 }
func (noInfo) Mode() os.FileMode  { return 0 }
func (noInfo) ModTime() time.Time { return time.Time{} }
func (noInfo) IsDir() bool        { return false }
func (noInfo) Sys() any           { return nil }
