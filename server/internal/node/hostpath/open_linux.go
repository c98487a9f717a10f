package hostpath

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	toRead = unix.O_RDONLY | unix.O_DIRECTORY
	toHold = unix.O_PATH | unix.O_NOFOLLOW // if the last part of a path is a link, the link itself is opened
)

// open opens the directory of pods.
func open(root string) (*os.File, error) { return os.OpenFile(root, toRead, 0) }

// openBelow opens a path below a directory. The kernel refuses a path that contains a link or leaves the directory,
// also if files are moved or replaced meanwhile.
func openBelow(in *os.File, path string, flags uint64) (*os.File, error) {
	how := &unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	for {
		fd, err := unix.Openat2(int(in.Fd()), path, how)
		switch err {
		case nil:
			return os.NewFile(uintptr(fd), filepath.Join(in.Name(), path)), nil
		case unix.EINTR, unix.EAGAIN:
		case unix.ENOSYS:
			return nil, fmt.Errorf("open %s: the kernel of the node is older than 5.6, and cannot open volumes safely: %w", path,
				err)
		default:
			return nil, &fs.PathError{Op: "open", Path: filepath.Join(in.Name(), path), Err: err}
		}
	}
}

// follow opens the target of an open link.
func follow(link *os.File) (*os.File, error) {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(link.Fd()), "", target)
	if err != nil {
		return nil, &fs.PathError{Op: "readlink", Path: link.Name(), Err: err}
	}
	path := string(target[:n])
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("%s leads to %q, expected the absolute path of a block device", link.Name(), path)
	}
	return os.OpenFile(path, unix.O_PATH, 0)
}

// Root opens a directory for operations below it. Links do not lead out of it.
func (v Volume) Root() (*os.Root, error) {
	return os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", v.File.Fd()))
}
