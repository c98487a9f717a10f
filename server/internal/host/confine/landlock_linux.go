package confine

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	mayRun  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE // of a file
	mayRead = mayRun | unix.LANDLOCK_ACCESS_FS_READ_DIR
	// to a file
	mayWrite = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
)

// handled returns the accesses to files that a version of Landlock controls. An access without a rule is denied.
func handled(version uintptr) uint64 {
	all := uint64(unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1)
	if version >= 2 {
		all |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= 3 {
		all |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 5 {
		all |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return all
}

// newRules returns a set of rules of Landlock, by which a process may read system directories and the programs, and
// write temporary files. It returns -1 with an error.
func newRules(s *state, proc bool) (int, error) {
	version, _, wrong := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if wrong != 0 {
		return -1, wrong
	}
	all := handled(version)
	attributes := unix.LandlockRulesetAttr{Handled_access_fs: all}
	size := unsafe.Sizeof(attributes.Handled_access_fs)
	if version >= 6 {
		attributes.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		size = unsafe.Offsetof(attributes.Scoped) + unsafe.Sizeof(attributes.Scoped)
	}
	rules, _, wrong := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attributes)), size, 0)
	if wrong != 0 {
		return -1, wrong
	}
	allow := func(access uint64, paths ...string) error {
		for _, path := range paths {
			if err := allowPath(int(rules), access&all, path); err != nil {
				return err
			}
		}
		return nil
	}
	err := allow(mayRead, append(systemDirs(), s.Files)...)
	if err == nil && proc {
		err = allow(mayRead, "/proc")
	}
	if err == nil {
		err = allow(mayRun, self())
	}
	if err == nil {
		err = allow(mayWrite, devices()...)
	}
	if err == nil {
		err = allow(all&^unix.LANDLOCK_ACCESS_FS_EXECUTE, s.Temp)
	}
	if err != nil {
		_ = unix.Close(int(rules))
		return -1, err
	}
	return int(rules), nil
}

// allowPath allows an access to a file, or to everything below a directory, if there is one.
func allowPath(rules int, access uint64, path string) error {
	file, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil //nolint:nilerr // there is nothing to allow
	}
	defer func() { _ = unix.Close(file) }()
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(file)}
	if _, _, wrong := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(rules), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0); wrong != 0 {
		return fmt.Errorf("allow %s: %w", path, wrong)
	}
	return nil
}

// restrict applies rules to this thread and to what it runs. It closes them.
func restrict(rules int) error {
	defer func() { _ = unix.Close(rules) }()
	if _, _, wrong := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(rules), 0, 0); wrong != 0 {
		return os.NewSyscallError("landlock_restrict_self", wrong)
	}
	return nil
}
