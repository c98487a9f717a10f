package directory

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// isMountPoint reports whether something is mounted at dir, or at what dir links to.
func isMountPoint(dir string) bool {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	var stat unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, real, 0, unix.STATX_BASIC_STATS, &stat); err != nil {
		return false
	}
	return stat.Attributes_mask&stat.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}
