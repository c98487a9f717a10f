package process

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Attach mounts a file of the host in the enclosure of a process that runs, at the path of one of Mounts that has no
// file. The process sees the mount with its restrictions only.
func (e *Enclosure) Attach(m Mount) error {
	err := e.inside(func(enter func() error) error {
		restricted, err := m.restricted()
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(restricted) }()
		if err := enter(); err != nil {
			return err
		}
		return unix.MoveMount(restricted, "", unix.AT_FDCWD, filepath.Clean(m.Path), unix.MOVE_MOUNT_F_EMPTY_PATH)
	})
	if err != nil {
		return fmt.Errorf("%w: mount %s: %w", ErrEnclosure, m.Path, err)
	}
	return nil
}

// Detach removes the mount that Attach has made at a path. It fails if the process still uses a file of the mount.
func (e *Enclosure) Detach(path string) error {
	err := e.inside(func(enter func() error) error {
		if err := enter(); err != nil {
			return err
		}
		return unix.Unmount(filepath.Clean(path), unix.UMOUNT_NOFOLLOW)
	})
	if err != nil {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	return nil
}

// inside calls do on a thread of its own, which enter moves into the mount namespace of the enclosure.
func (e *Enclosure) inside(do func(enter func() error) error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.namespace == nil {
		return errEnded
	}
	result := make(chan error)
	onOwnThread(func() {
		result <- do(func() error {
			return errors.Join(unix.Unshare(unix.CLONE_FS), unix.Setns(int(e.namespace.Fd()), unix.CLONE_NEWNS))
		})
	})
	return <-result
}

// restricted returns a mount that has its restrictions before a process can see it. The flags of a mount that is
// attached nowhere can be set since Linux 5.12 only, so it is attached in a namespace that has no process. The calling
// thread stays there.
func (m *Mount) restricted() (int, error) {
	root, err := emptyRoot()
	if err != nil {
		return none, err
	}
	defer func() { _ = unix.Close(root) }()
	t, err := detached("/given", int(m.File.Fd()), m.flags())
	if err != nil {
		return none, err
	}
	defer func() { _ = unix.Close(t.fd) }()
	if err := errors.Join(separate(), goTo(root)); err != nil {
		return none, err
	}
	if err := t.attach(); err != nil {
		return none, err
	}
	return unix.OpenTree(unix.AT_FDCWD, t.path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
}
