package s3store

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"gocloud.dev/gcerrors"

	"github.com/cleat-dev/cleat/framework"
)

// failed returns an error with the operation, the place, the reply of S3, and the remedy.
func (s *store) failed(action, bucket, key string, err error) error {
	endpoint := cmp.Or(s.config.S3URL, "Amazon S3 in region "+s.config.Region)
	hint := s.hint(bucket, endpoint, err)
	var operation *smithy.OperationError
	if errors.As(err, &operation) { // removes the wrapping of the Go CDK
		err = operation
	}
	if hint != "" {
		hint = "; " + hint
	}
	if strings.HasSuffix(hint, noSuchObject) {
		return framework.NotFound("%s %s in bucket %q at %s: %w%s", action, cmp.Or(key, "everything"), bucket, endpoint, err,
			hint)
	}
	if isAway(err) {
		return framework.Unavailable("%s %s in bucket %q at %s: %w%s", action, cmp.Or(key, "everything"), bucket, endpoint,
			err, hint)
	}
	return fmt.Errorf("%s %s in bucket %q at %s: %w%s", action, cmp.Or(key, "everything"), bucket, endpoint, err, hint)
}

// isAway reports whether S3 was not reached, or could not do its work: the same request may succeed later.
func isAway(err error) bool {
	var (
		sent      *smithyhttp.RequestSendError
		answer    interface{ HTTPStatusCode() int }
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
	)
	switch {
	case errors.Is(err, context.Canceled), errors.As(err, &authority), errors.As(err, &hostname), errors.As(err, &invalid),
		errors.As(err, &record):
		return false
	case errors.As(err, &sent), hasCode(err, "SlowDown", "RequestTimeout", "InternalError", "ServiceUnavailable"):
		return true
	case errors.As(err, &answer):
		return answer.HTTPStatusCode() >= http.StatusInternalServerError &&
			answer.HTTPStatusCode() != http.StatusNotImplemented ||
			answer.HTTPStatusCode() == http.StatusTooManyRequests
	}
	return false
}

// isConditionFailed reports whether S3 did not write an object because there is one, or because another is being
// written.
func isConditionFailed(err error) bool {
	return hasCode(err, "PreconditionFailed", "ConditionalRequestConflict")
}

// isUnsupported reports whether the server does not support the header of a condition.
func isUnsupported(err error) bool { return hasCode(err, "NotImplemented") }

func hasCode(err error, codes ...string) bool {
	var api smithy.APIError
	return errors.As(err, &api) && slices.Contains(codes, api.ErrorCode())
}

// noSuchObject is the hint for an object that does not exist.
const noSuchObject = "there is no such object"

// hint returns what to check, or "" if the error is clear enough.
func (s *store) hint(bucket, endpoint string, err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		if strings.Contains(strings.ReplaceAll(api.ErrorMessage(), " ", ""), "ObjectLockConfiguration") {
			return "the bucket has no Object Lock, which config.objectLockMode needs: take a bucket that was created with it"
		}
		switch api.ErrorCode() {
		case "NoSuchBucket":
			return fmt.Sprintf("the bucket does not exist: create %q, or correct spec.objectStorage.bucket", bucket)
		case "NoSuchKey", "NoSuchVersion", "NotFound":
			return noSuchObject
		case "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "AccessDenied", "Forbidden",
			"XAdminUserNotFound": // the last is of versitygw
			return fmt.Sprintf("the credentials were refused: check the access key and secret key of profile %q in %s, and "+
				"their rights on the bucket",
				cmp.Or(s.config.Profile, "default"), s.credentialsSource())
		case "PermanentRedirect", "MovedPermanently", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException":
			return fmt.Sprintf("the bucket may be in another region than %q: correct config.region", s.config.Region)
		}
	}
	if gcerrors.Code(err) == gcerrors.NotFound {
		return noSuchObject
	}
	return connectionHint(endpoint, s.credentialsSource(), err)
}

func (s *store) credentialsSource() string {
	if s.config.CredentialsFile == "" {
		return "the server's environment (the location has no spec.credential)"
	}
	return "the Secret of spec.credential"
}

func connectionHint(endpoint, credentials string, err error) string {
	var (
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
		dns       *net.DNSError
	)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return ""
	case errors.As(err, &authority):
		return "the server's certificate is signed by an unknown CA: put that CA into spec.objectStorage.caCertRef (or " +
			"caCert)"
	case errors.As(err, &hostname), errors.As(err, &invalid):
		return "the server's certificate is not good for this endpoint: correct config.s3Url or the certificate"
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return "the server does not speak TLS: correct the scheme of config.s3Url"
	case errors.As(err, &dns), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err,
		syscall.ENETUNREACH):
		return fmt.Sprintf("nothing answers at %s: check config.s3Url and that the server runs", endpoint)
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the connection broke: check that the server runs"
	case strings.Contains(err.Error(), "get credentials"):
		return "there are no usable credentials: check " + credentials
	}
	return ""
}
