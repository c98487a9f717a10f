package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// systemDirs returns the directories with interpreters and libraries.
func systemDirs() []string {
	return []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/etc", "/opt", "/nix"}
}

// devices returns the devices that programs may use.
func devices() []string {
	return []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}
}

// newRoot gives the process, in a mount namespace of its own, a root directory with nothing but system directories,
// devices, the processes of its namespace, the programs in /plugins, and /tmp, which it can write. It is put together
// at temp.
func newRoot(files, temp string) (err error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", temp, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=1m"); err != nil {
		return fmt.Errorf("mount a root directory: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, unix.Unmount(temp, unix.MNT_DETACH))
		}
	}()
	for _, dir := range systemDirs() {
		if err := show(dir, temp+dir); err != nil {
			return err
		}
	}
	for _, device := range devices() {
		if err := show(device, temp+device); err != nil {
			return err
		}
	}
	if err := show(files, temp+"/plugins"); err != nil {
		return err
	}
	for _, dir := range []string{"/proc", "/tmp"} {
		if err := os.Mkdir(temp+dir, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("proc", temp+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	readOnly := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID}
	if err := unix.MountSetattr(unix.AT_FDCWD, temp, unix.AT_RECURSIVE, readOnly); err != nil {
		return fmt.Errorf("make the root directory read-only: %w", err)
	}
	options := fmt.Sprintf("mode=700,uid=%d,gid=%d,size=%d,nr_inodes=4096", nobody, nobody, mostFileBytes)
	if err := unix.Mount("tmpfs", temp+"/tmp", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, options); err != nil {
		return fmt.Errorf("mount /tmp: %w", err)
	}
	if err := os.Chdir(temp); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil { // puts the old root on top of the new one
		return fmt.Errorf("change the root directory: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the old root directory: %w", err)
	}
	return os.Chdir("/")
}

// show makes a file or a directory visible at another path too, and copies a link. It need not exist.
func show(from, at string) error {
	info, err := os.Lstat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(at), 0o755)
	}
	if err != nil {
		return err
	}
	switch {
	case info.Mode().Type() == fs.ModeSymlink:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, at)
	case info.IsDir():
		err = os.Mkdir(at, 0o755)
	default:
		err = os.WriteFile(at, nil, 0o600)
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(from, at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("show %s: %w", from, err)
	}
	return nil
}
