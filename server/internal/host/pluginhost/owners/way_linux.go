package owners

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxLinks is how many links the kernel follows.
const maxLinks = 40

// Open opens the file that path leads to, for reading, and returns the way to it. Each step is looked at through a
// descriptor that was opened in the directory before it, so that the way is the one that led to this file. What is not
// a regular file is an error.
func Open(path string) (*os.File, Way, error) {
	w, err := newWalk(path)
	if err != nil {
		return nil, nil, err
	}
	defer w.close()
	if err := w.walk(); err != nil {
		return nil, nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return w.file, w.way, nil
}

// walk is a walk along a path.
type walk struct {
	dirs  []int    // open directories from "/" to where the walk is, which ".." leaves
	paths []string // theirs
	rest  []string // what is left of the path
	links int
	way   Way
	file  *os.File
}

func newWalk(path string) (*walk, error) {
	if !filepath.IsAbs(path) { // not cleaned, because ".." after a link leads elsewhere
		dir, err := os.Getwd()
		if err != nil {
			return nil, err
		}
		path = dir + "/" + path
	}
	return &walk{rest: strings.Split(path, "/")}, nil
}

func (w *walk) close() {
	for _, dir := range w.dirs {
		_ = unix.Close(dir)
	}
}

// walk goes from "/" to the file.
func (w *walk) walk() error {
	if err := w.enter(unix.AT_FDCWD, "/", "/"); err != nil {
		return err
	}
	for w.file == nil {
		if len(w.rest) == 0 {
			return syscall.EISDIR
		}
		name := w.rest[0]
		w.rest = w.rest[1:]
		var err error
		switch name {
		case "", ".":
		case "..":
			if last := len(w.dirs) - 1; last > 0 {
				_ = unix.Close(w.dirs[last])
				w.dirs, w.paths = w.dirs[:last], w.paths[:last]
			}
		default:
			err = w.step(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// step opens the entry of the directory with this name.
func (w *walk) step(name string) error {
	last := len(w.dirs) - 1
	dir, path := w.dirs[last], filepath.Join(w.paths[last], name)
	var stat unix.Stat_t
	if err := unix.Fstatat(dir, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return w.enter(dir, name, path)
	case unix.S_IFLNK:
		return w.follow(dir, name, path)
	case unix.S_IFREG:
		return w.open(dir, name, path)
	}
	return errors.New("it is not a regular file")
}

func (w *walk) enter(dir int, name, path string) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	w.dirs, w.paths = append(w.dirs, fd), append(w.paths, path)
	return w.add(fd, path)
}

func (w *walk) follow(dir int, name, path string) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if w.links++; w.links > maxLinks {
		return syscall.ELOOP
	}
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", target)
	if err != nil {
		return err
	}
	if err := w.add(fd, path); err != nil {
		return err
	}
	to := string(target[:n])
	if strings.HasPrefix(to, "/") {
		for _, dir := range w.dirs[1:] {
			_ = unix.Close(dir)
		}
		w.dirs, w.paths = w.dirs[:1], w.paths[:1]
	}
	w.rest = append(strings.Split(to, "/"), w.rest...)
	return nil
}

func (w *walk) open(dir int, name, path string) error {
	for _, more := range w.rest {
		if more != "" {
			return syscall.ENOTDIR
		}
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := w.add(fd, path); err != nil {
		_ = unix.Close(fd)
		return err
	}
	if !w.way[len(w.way)-1].Mode.IsRegular() { // it was replaced meanwhile
		_ = unix.Close(fd)
		return errors.New("it is not a regular file")
	}
	w.holds()
	w.file = os.NewFile(uintptr(fd), path)
	return nil
}

// add adds the open file fd to the way.
func (w *walk) add(fd int, path string) error {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	var system unix.Statfs_t
	if err := unix.Fstatfs(fd, &system); err != nil {
		return fmt.Errorf("look at the file system of %s: %w", path, err)
	}
	w.way = append(w.way, Step{
		Path: path, Mode: mode(stat.Mode), Owner: int(stat.Uid), ReadOnly: system.Flags&unix.ST_RDONLY != 0,
	})
	return nil
}

// holds marks the directory in which the file was found.
func (w *walk) holds() {
	dir := w.paths[len(w.paths)-1]
	for i := range w.way {
		if w.way[i].Path == dir {
			w.way[i].Holds = true
		}
	}
}

// mode returns a mode of the kernel as one of Go.
func mode(m uint32) fs.FileMode {
	mode := fs.FileMode(m & 0o777)
	switch m & unix.S_IFMT {
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFREG:
	default:
		mode |= fs.ModeIrregular
	}
	if m&unix.S_ISVTX != 0 {
		mode |= fs.ModeSticky
	}
	return mode
}

// ownerOf returns the user id of the owner of a file.
func ownerOf(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return Unknown
}
