package kopia

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"

	"github.com/kopia/kopia/repo"
	"github.com/kopia/kopia/repo/blob"
	"github.com/kopia/kopia/repo/content"
	"github.com/kopia/kopia/repo/maintenance"
	"github.com/kopia/kopia/repo/object"
	"github.com/kopia/kopia/snapshot"
	"github.com/minio/minio-go/v7"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/plugins/kopia/internal/repository"
	"github.com/cleat-dev/cleat/plugins/kopia/internal/storage"
	"github.com/cleat-dev/cleat/plugins/kopia/internal/volume"
)

// explain returns what a failure of kopia means, and what to do. An error that says so already stays as it is.
func (s *session) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, known := range []error{framework.ErrNotFound, framework.ErrInvalid, framework.ErrUnavailable} {
		if errors.Is(err, known) {
			return err
		}
	}
	reason := s.Clean(err.Error())
	var ofVolume *volume.Error
	if errors.As(err, &ofVolume) {
		return framework.Errorf("%s%s", reason, remedyOf(err, volumeRemedies))
	}
	var (
		damaged *repository.DamagedError
		owner   maintenance.NotOwnedError
	)
	switch {
	case errors.Is(err, storage.ErrNowhere), errors.Is(err, repo.ErrRepositoryNotInitialized):
		return framework.NotFound("there is no repository of kopia at %s", s.of)
	case errors.Is(err, snapshot.ErrSnapshotNotFound):
		return framework.NotFound("repository %s: %s", s.of, reason)
	case errors.Is(err, repo.ErrInvalidPassword):
		return framework.Invalid("repository %s: the password is wrong: the key repository-password of the Secret "+
			"velero-repo-credentials must be the one with which the repository was created", s.of)
	case errors.Is(err, repo.ErrRepositoryUnavailableDueToUpgradeInProgress):
		return framework.Unavailable("repository %s: %s", s.of, reason)
	case errors.As(err, &owner):
		return framework.Invalid("repository %s: its maintenance belongs to %s, want %[3]s@%[3]s: change it with \"kopia "+
			"maintenance set --owner\", or have that client do it", s.of, owner.Owner, repository.Client)
	case errors.As(err, &damaged), errors.Is(err, content.ErrContentNotFound), errors.Is(err, object.ErrObjectNotFound),
		errors.Is(err, blob.ErrBlobNotFound), mentions(reason, "invalid checksum", "decrypt", "missing blob",
			"message authentication failed"):
		return framework.Errorf("repository %s: %s; if files of it are lost, bring them back, or back up the volumes to "+
			"another location", s.of, reason)
	case hasCode(err, "QuotaExceeded", "StorageFull", "XMinioStorageFull", "InsufficientCapacity"):
		return framework.Errorf("repository %s: the storage: %s%s", s.of, reason, remedyOf(syscall.ENOSPC, storageRemedies))
	case errors.Is(err, blob.ErrInvalidCredentials), hasCode(err, "InvalidAccessKeyId", "SignatureDoesNotMatch",
		"AccessDenied", "ExpiredToken", "XAdminUserNotFound"):
		return framework.Invalid("repository %s: the storage refuses the credentials: %s; want aws_access_key_id and "+
			"aws_secret_access_key in the profile of the location's Secret, or credentials in the environment", s.of, reason)
	case isAway(err):
		return framework.Unavailable("repository %s: the storage does not answer: %s", s.of, reason)
	case isOfSystem(err) && s.place.remote: // its blobs are in no file
		return framework.Errorf("the directory of caches, %s: %s%s", s.mover.cache, reason, remedyOf(err, cacheRemedies))
	case isOfSystem(err):
		return framework.Errorf("repository %s: the storage: %s%s", s.of, reason, remedyOf(err, storageRemedies))
	}
	return framework.Errorf("repository %s: %s", s.of, reason)
}

// away returns the error of a look at the bucket.
func (s *session) away(err error) error {
	if errors.Is(err, framework.ErrInvalid) || errors.Is(err, framework.ErrUnavailable) {
		return err
	}
	return framework.Unavailable("repository %s: %w", s.of, err)
}

func mentions(text string, any ...string) bool {
	for _, one := range any {
		if strings.Contains(text, one) {
			return true
		}
	}
	return false
}

// hasCode reports whether an error is an answer of S3 with one of some codes.
func hasCode(err error, codes ...string) bool {
	var answer minio.ErrorResponse
	if !errors.As(err, &answer) {
		return false
	}
	return mentions(answer.Code, codes...)
}

// isAway reports whether a server could not be reached, or could not do its work.
func isAway(err error) bool {
	var (
		answer  minio.ErrorResponse
		request *url.Error
		network net.Error
	)
	if errors.As(err, &answer) {
		return answer.StatusCode >= http.StatusInternalServerError || answer.Code == "NoSuchBucket" ||
			answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode == http.StatusRequestTimeout
	}
	if errors.As(err, &request) || errors.Is(err, io.ErrUnexpectedEOF) { // of an answer: a stored object has a checksum
		return true
	}
	if !errors.As(err, &network) {
		return false
	}
	number, ofSystem := network.(syscall.Errno) // each of them is a net.Error
	return !ofSystem || slices.Contains(connectionErrors, number)
}

// connectionErrors are the errors of the system that are about the connection to a server.
var connectionErrors = []syscall.Errno{
	syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE, syscall.ETIMEDOUT, syscall.EHOSTDOWN,
	syscall.EHOSTUNREACH, syscall.ENETDOWN, syscall.ENETUNREACH, syscall.ENETRESET, syscall.ENOTCONN,
}

// isOfSystem reports whether an error is one of the system, as of a file.
func isOfSystem(err error) bool {
	var number syscall.Errno
	return errors.As(err, &number)
}

// remedies says what to do about errors of the system.
type remedies struct{ full, readOnly, broken, refused string }

var (
	volumeRemedies = remedies{
		full:     "free space in it, or files if it has space left; a restore needs a claim that is large enough",
		readOnly: "mount it for writing; the log of the node's kernel says whether its file system has errors",
		broken:   "the log of the node's kernel and the storage system of the volume say more",
		refused: "see whether the object is immutable (lsattr), and whether the volume lets root of the node write (such " +
			"as root_squash of NFS)",
	}
	storageRemedies = remedies{
		full:     "free space there, or delete backups and maintain the repository",
		readOnly: "mount the directory of the location for writing",
		broken:   "the log of the node's kernel and the file system of the location say more",
		refused:  "see who owns the directory of the location, and its permissions",
	}
	cacheRemedies = remedies{
		full:     "free space there, set cacheLimitMB lower, or cacheDirectory elsewhere",
		readOnly: "set cacheDirectory to one that can be written",
		broken:   "the log of the node's kernel says more",
		refused:  "set cacheDirectory to one that can be written",
	}
)

// remedyOf returns what to do about an error of the system, after a semicolon; "" if that is not known.
func remedyOf(err error, of remedies) string {
	for _, known := range []struct {
		numbers []error
		remedy  string
	}{
		{[]error{syscall.ENOSPC, syscall.EDQUOT}, of.full},
		{[]error{syscall.EROFS}, of.readOnly},
		{[]error{syscall.EIO, syscall.ENXIO, syscall.ENODEV, syscall.ESTALE, syscall.EUCLEAN}, of.broken},
		{[]error{syscall.EPERM, syscall.EACCES}, of.refused},
	} {
		if slices.ContainsFunc(known.numbers, func(one error) bool { return errors.Is(err, one) }) {
			return "; " + known.remedy
		}
	}
	return ""
}
