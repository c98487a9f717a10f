package framework

import "github.com/cleat-dev/cleat/framework/internal/glue"

// Errors with the reason why a call failed. errors.Is finds them in the results of NotFound, Unavailable and Invalid,
// in errors that wrap those, and in the errors of package plugintest. On the wire each is a gRPC status:
//
//	ErrNotFound     NOT_FOUND          what the call names does not exist
//	ErrUnavailable  UNAVAILABLE        what the call needs does not answer now; later it may
//	ErrInvalid      INVALID_ARGUMENT   what the call was given cannot be right, now or later
//	ErrExists       ALREADY_EXISTS     what the call was to create exists
//
// An error that wraps a gRPC status keeps that status. All others are UNKNOWN, and a panic is ABORTED.
var (
	ErrNotFound    = glue.ErrNotFound
	ErrUnavailable = glue.ErrUnavailable
	ErrInvalid     = glue.ErrInvalid
	ErrExists      = glue.ErrExists
)

// ErrCannotCancel is returned, plain or wrapped, by the method Cancel of an action for an operation that cannot be
// stopped. The host then goes on without the operation. On Velero's wire, which cannot express that, it is not an
// error.
var ErrCannotCancel = glue.ErrCannotCancel

// NotFound is Errorf whose result is an ErrNotFound.
func NotFound(format string, args ...any) error { return glue.Typed(ErrNotFound, format, args...) }

// Unavailable is Errorf whose result is an ErrUnavailable.
func Unavailable(format string, args ...any) error {
	return glue.Typed(ErrUnavailable, format, args...)
}

// Invalid is Errorf whose result is an ErrInvalid.
func Invalid(format string, args ...any) error { return glue.Typed(ErrInvalid, format, args...) }

// Exists is Errorf whose result is an ErrExists.
func Exists(format string, args ...any) error { return glue.Typed(ErrExists, format, args...) }

// Errorf is fmt.Errorf that also records where it was called. The host logs that position (error.file, error.function)
// when a call fails with the error or with one that wraps it.
func Errorf(format string, args ...any) error { return glue.Errorf(format, args...) }

// WithStack makes err record where WithStack was called, as Errorf does. A nil err stays nil.
func WithStack(err error) error { return glue.WithStack(err) }
