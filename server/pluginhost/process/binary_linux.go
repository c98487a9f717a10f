package process

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/cleat-dev/cleat/server/pluginlock"
)

// IdentityOf returns the identity of a file.
func IdentityOf(info fs.FileInfo) Identity {
	i := Identity{size: info.Size(), Modified: info.ModTime().UnixNano()}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		i.device, i.inode, i.changed = uint64(stat.Dev), stat.Ino, stat.Ctim.Nano()
	}
	return i
}

// executable returns an error if the mode of the file, or the mount that it is on, does not allow the server to run it. The kernel does not
// ask when a copy or an interpreter runs.
func (b *Binary) executable() error {
	if err := unix.Faccessat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", b.File.Fd()), unix.X_OK, unix.AT_EACCESS); err != nil {
		return &fs.PathError{Op: "execute", Path: b.Path, Err: err}
	}
	return nil
}

// command runs the open file, which the child inherits as descriptor 3, through a link in dir, a private directory that
// lasts as long as the process. The link gives the process its name. For a "#!" script that is the interpreter, which gets a link to the
// script, descriptor 4. The script finds its folder by resolving the link, as node and python do, unless it is a sealed copy, which has
// none.
func (b *Binary) command(dir string, args []string) (*exec.Cmd, error) {
	name := filepath.Base(b.Path)
	link := filepath.Join(dir, name)
	if err := os.Symlink("/proc/self/fd/3", link); err != nil {
		return nil, err
	}
	i, err := b.interpreter()
	if err != nil {
		return nil, err
	}
	if i == nil {
		return &exec.Cmd{Path: link, Args: append([]string{b.Path}, args...), ExtraFiles: []*os.File{b.File}}, nil
	}
	var script string
	folder, err := os.MkdirTemp(dir, "script")
	if err == nil {
		script = filepath.Join(folder, name)
		err = os.Symlink("/proc/self/fd/4", script)
	}
	if err != nil {
		_ = i.file.Close()
		return nil, err
	}
	return &exec.Cmd{Path: link, Args: slices.Concat(i.args, []string{script}, args), ExtraFiles: []*os.File{i.file, b.File}}, nil
}

// copyOf returns a sealed copy of the file that has this sum.
func (b *Binary) copyOf(sum string) (*os.File, error) {
	info, err := b.File.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at plugin %s: %w", b.Path, err)
	}
	sealed, err := newMemory(filepath.Base(b.Path))
	if err != nil {
		return nil, fmt.Errorf("copy plugin %s to memory, to start what was checked: %w", b.Path, err)
	}
	// The size bounds the memory for a file that grows. What is not the whole file has another sum.
	_, err = io.Copy(sealed, io.NewSectionReader(b.File, 0, info.Size()))
	if err == nil {
		_, err = unix.FcntlInt(sealed.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err == nil {
		var got string
		if got, err = pluginlock.Sum(io.NewSectionReader(sealed, 0, math.MaxInt64)); err == nil && got != sum {
			err = &DistrustError{errors.New("it was changed while it was checked")}
		}
	}
	if err != nil {
		_ = sealed.Close()
		return nil, fmt.Errorf("copy plugin %s to memory, to start what was checked: %w", b.Path, err)
	}
	return sealed, nil
}

// newMemory returns an empty file in memory that can be sealed and run.
func newMemory(name string) (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3, where all can be run
		fd, err = unix.MemfdCreate(name, flags)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// runError replaces the link in an error by the path of the binary.
func (b *Binary) runError(err error) error {
	var wrong *fs.PathError
	if errors.As(err, &wrong) {
		return &fs.PathError{Op: wrong.Op, Path: b.Path, Err: wrong.Err}
	}
	return err
}
