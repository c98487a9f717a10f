package directory

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// isMountPoint tells whether something is mounted at dir, also when dir is a link to it.
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

// isReadOnly tells whether nobody who sees path can write there, whatever the modes say: its file system is mounted so,
// as volumes of ConfigMaps and Secrets are.
func isReadOnly(path string) bool {
	var stat unix.Statfs_t
	return unix.Statfs(path, &stat) == nil && stat.Flags&unix.ST_RDONLY != 0
}
