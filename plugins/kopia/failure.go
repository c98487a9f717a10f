package kopia

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
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
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), hasCode(err, "QuotaExceeded", "StorageFull",
		"XMinioStorageFull", "InsufficientCapacity"):
		return framework.Errorf("repository %s: storage or volume is full: %s; free space there, or delete backups and "+
			"maintain the repository", s.of, reason)
	case errors.Is(err, blob.ErrInvalidCredentials), hasCode(err, "InvalidAccessKeyId", "SignatureDoesNotMatch",
		"AccessDenied", "ExpiredToken", "XAdminUserNotFound"):
		return framework.Invalid("repository %s: the storage refuses the credentials: %s; want aws_access_key_id and "+
			"aws_secret_access_key in the profile of the location's Secret, or credentials in the environment", s.of, reason)
	case isAway(err):
		return framework.Unavailable("repository %s: the storage does not answer: %s", s.of, reason)
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
			answer.StatusCode == http.StatusTooManyRequests
	}
	return errors.As(err, &request) || errors.As(err, &network)
}
