package kopia

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	dmv1 "github.com/cleat-dev/cleat/framework/datamover/v1"
	"github.com/cleat-dev/cleat/plugins/internal/warnings"
	"github.com/cleat-dev/cleat/plugins/kopia/internal/volume"
)

// TestErrorsSayOnWhichSideTheyAre has each error of the system on the volume, in a storage that is a directory, and in the
// caches of one that is not. Only those of connections are an outage of the storage.
func TestErrorsSayOnWhichSideTheyAre(t *testing.T) {
	t.Parallel()
	explained := func(remote bool, err error) error {
		s := &session{List: warnings.New(nil), mover: &mover{cache: "/cache"}, place: &place{remote: remote},
			of: dmv1.Repository{Provider: "p", Path: "kopia/shop"}}
		return s.explain(t.Context(), fmt.Errorf("error restoring: %w", err))
	}
	for number, want := range map[syscall.Errno][3]string{
		syscall.ENOSPC: {"free space in it", "maintain the repository", "cacheLimitMB"},
		syscall.EDQUOT: {"free space in it", "maintain the repository", "cacheLimitMB"},
		syscall.EROFS:  {"mount it for writing", "mount the directory of the location", "cacheDirectory"},
		syscall.EIO:    {"storage system of the volume", "file system of the location", "kernel"},
		syscall.EPERM:  {"lsattr", "who owns the directory", "cacheDirectory"},
		syscall.EACCES: {"root_squash", "who owns the directory", "cacheDirectory"},
		syscall.EMFILE: {"too many open files", "too many open files", "too many open files"},
	} {
		failed := &os.PathError{Op: "open", Path: "db", Err: number}
		for i, err := range []error{
			explained(true, &volume.Error{Err: failed}), explained(false, failed), explained(true, failed),
		} {
			require.NotErrorIs(t, err, framework.ErrUnavailable, number.Error())
			side := []string{"volume: open db: ", "the storage: ", "the directory of caches, /cache: "}[i]
			require.ErrorContains(t, err, side)
			require.ErrorContains(t, err, want[i])
		}
	}
	for _, away := range []error{
		&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, syscall.ECONNRESET,
		&net.DNSError{Err: "no such host"}, syscall.ETIMEDOUT,
	} {
		require.ErrorIs(t, explained(true, away), framework.ErrUnavailable, away.Error())
	}
}
