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

	"github.com/cleat-dev/cleat/server/internal/host/pluginlock"
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
// lasts as long as the process. The link gives the process its name. A "#!" script sees the link as its own path and
// finds its folder by resolving it, as node and python do.
func (b *Binary) command(dir string, args []string) (*exec.Cmd, error) {
	if b.release != nil {
		i, err := b.interpreter()
		if err != nil {
			return nil, err
		}
		if i != nil {
			return b.scriptCommand(dir, i, args)
		}
	}
	link := filepath.Join(dir, filepath.Base(b.Path))
	if err := os.Symlink("/proc/self/fd/3", link); err != nil {
		return nil, err
	}
	return &exec.Cmd{Path: link, Args: append([]string{b.Path}, args...), ExtraFiles: []*os.File{b.File}}, nil
}

// scriptCommand runs the interpreter of a sealed script, as command does, with a link to the script, descriptor 4. The
// kernel would open the interpreter by its path, which may lead to another file than the checked one.
func (b *Binary) scriptCommand(dir string, i *interpreter, args []string) (*exec.Cmd, error) {
	name := filepath.Base(b.Path)
	link, script := filepath.Join(dir, name), filepath.Join(dir, name+".script", name)
	if err := errors.Join(os.Symlink("/proc/self/fd/3", link), os.Mkdir(filepath.Dir(script), 0o700),
		os.Symlink("/proc/self/fd/4", script)); err != nil {
		_ = i.file.Close()
		return nil, err
	}
	return &exec.Cmd{Path: link, Args: slices.Concat(i.args, []string{script}, args),
		ExtraFiles: []*os.File{i.file, b.File}}, nil
}

// copyOf returns a sealed copy of the file that has this sum. The copy may run where the file may, by its mode and its
// mount.
func (b *Binary) copyOf(sum string) (*os.File, error) {
	if err := unix.Faccessat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", b.File.Fd()), unix.X_OK,
		unix.AT_EACCESS); err != nil {
		return nil, &fs.PathError{Op: "execute", Path: b.Path, Err: err}
	}
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
		err = seal(sealed)
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

// sealTries is how often a file is sealed while the kernel is busy with it; it waits 150 ms each time.
const sealTries = 100

// seal makes a file in memory immutable.
func seal(file *os.File) error {
	for tries := 1; ; tries++ {
		_, err := unix.FcntlInt(file.Fd(), unix.F_ADD_SEALS,
			unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
		if !errors.Is(err, unix.EBUSY) || tries == sealTries {
			// its pages are on their way to a list, on a processor that does not get to it
			return err
		}
	}
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

// runError replaces the link in an error by the path of the binary, and names a missing loader.
func (b *Binary) runError(err error) error {
	var wrong *fs.PathError
	if errors.As(err, &wrong) {
		err = &fs.PathError{Op: wrong.Op, Path: b.Path, Err: wrong.Err}
	}
	return b.explainMissing(err)
}
