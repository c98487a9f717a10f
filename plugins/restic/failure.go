package restic

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/plugins/restic/internal/program"
)

var (
	lockLine = regexp.MustCompile(`repository is already locked.*`)
	lockAge  = regexp.MustCompile(`lock was created at .*`)
)

// explain returns what a failure of restic means, and what to do. Errors of no program stay as they are.
func (s *session) explain(ctx context.Context, err error) error {
	var failed *program.Error
	if !errors.As(err, &failed) {
		return err
	}
	reason := s.Clean(failed.Reason())
	framework.Log(ctx).Debug("restic has failed", "command", failed.Command, "state", failed.State, "reason", reason)
	where := fmt.Sprintf("restic %s, repository %s", failed.Command, s.repository)
	switch {
	case failed.Says("wrong password or no key found") || failed.Code == 12:
		return framework.Invalid("%s: the password is wrong: the key repository-password of the Secret "+
			"velero-repo-credentials "+
			"must be the one with which the repository was created", where)
	case failed.Says("unable to open config file", "Is there a repository at the following location") || failed.Code == 10:
		if err := s.look(ctx); err != nil {
			return err
		}
		return framework.Unavailable("%s: %s", where, reason)
	case failed.Says("unsupported repository version"):
		return framework.Invalid("%s: %s: the repository needs a newer restic than %s", where, reason, s.program.Version())
	case failed.Command == "restore" && failed.Says("ignoring error for ", `"during":"restore"`) &&
		failed.Says("no space left on device", "disk quota exceeded", "read-only file system", "input/output error",
			"operation not permitted", "permission denied"):
		return framework.Errorf("%s: the volume: %s: %s; if it is full, free space in it, or restore into a larger claim; "+
			"otherwise the log of the node's kernel says more", where, reason, s.Clean(failed.Lines[0]))
	case failed.Says("no space left on device", "disk quota exceeded", "QuotaExceeded", "StorageFull", "XMinioStorageFull",
		"InsufficientCapacity"):
		return framework.Errorf("%s: the storage is full: %s; free space there, or delete backups and maintain the "+
			"repository", where, reason)
	case failed.Says("InvalidAccessKeyId", "SignatureDoesNotMatch", "Access Denied", "AccessDenied", "XAdminUserNotFound",
		"access key ID you provided does not exist", "No user exists"):
		return framework.Invalid("%s: the storage refuses the credentials: %s; restic needs aws_access_key_id and "+
			"aws_secret_access_key in the profile of the location's Secret, "+
			"or credentials in its environment", where, reason)
	case failed.Says("no matching ID found"):
		return framework.NotFound("%s: %s", where, reason)
	case failed.Says("ciphertext verification failed", "Pack ID does not match", "repository contains errors",
		"invalid data returned", "is damaged",
		"does not match", "not found in repository", "not found in index", "unexpected end of JSON", "invalid header",
		"invalid length"):
		return framework.Errorf("%s: the repository is damaged: %s; find out what is affected with \"restic check "+
			"--read-data\", "+
			"repair it as restic's documentation says (https://restic.readthedocs.io, \"Troubleshooting\"), and back up the "+
			"volumes again", where, reason)
	case failed.Says("connection refused", "no such host", "i/o timeout", "connection reset", "network is unreachable",
		"no route to host", "TLS handshake", "EOF", "context deadline exceeded"):
		return framework.Unavailable("%s: the storage does not answer: %s", where, reason)
	case failed.Code < 0:
		return framework.Errorf("%s: restic has not ended by itself (%s); if it was killed for its memory, set memoryLimit "+
			"in plugins.config, or raise the limit of the pod", where, failed.State)
	default:
		return framework.Errorf("%s: %s (%s)", where, reason, failed.State)
	}
}

// away returns the error of a look at the files of a repository.
func (s *session) away(err error) error {
	if errors.Is(err, framework.ErrInvalid) || errors.Is(err, framework.ErrUnavailable) ||
		errors.Is(err, context.Canceled) {
		return err
	}
	return framework.Unavailable("repository %s: %w", s.repository, err)
}
