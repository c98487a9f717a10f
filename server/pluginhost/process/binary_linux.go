package process

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// IdentityOf returns the identity of a file.
func IdentityOf(info fs.FileInfo) Identity {
	i := Identity{size: info.Size(), Modified: info.ModTime().UnixNano()}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		i.device, i.inode, i.changed = uint64(stat.Dev), stat.Ino, stat.Ctim.Nano()
	}
	return i
}

// command runs the open file, which the child inherits as descriptor 3, through a link in dir, a private directory that
// lasts as long as the process. The link gives the process its name. A "#!" script sees the link as its own path and finds
// its folder by resolving it, as node and python do.
func (b *Binary) command(dir string, args []string) (*exec.Cmd, error) {
	link := filepath.Join(dir, filepath.Base(b.Path))
	if err := os.Symlink("/proc/self/fd/3", link); err != nil {
		return nil, err
	}
	return &exec.Cmd{Path: link, Args: append([]string{b.Path}, args...), ExtraFiles: []*os.File{b.File}}, nil
}

// runError replaces the link in an error by the path of the binary.
func (b *Binary) runError(err error) error {
	var wrong *fs.PathError
	if errors.As(err, &wrong) {
		return &fs.PathError{Op: wrong.Op, Path: b.Path, Err: wrong.Err}
	}
	return err
}
