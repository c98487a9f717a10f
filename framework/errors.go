package framework

import (
	"time"

	"github.com/cleat-dev/cleat/framework/internal/glue"
)

// Errors with the reason why a call failed. errors.Is finds them in the results of NotFound, Unavailable and Invalid,
// in errors that wrap those, and in the errors of package plugintest. On the wire each is a gRPC status:
//
//	ErrNotFound     NOT_FOUND            what the call names does not exist
//	ErrUnavailable  UNAVAILABLE          what the call needs does not answer now; later it may
//	ErrInvalid      INVALID_ARGUMENT     what the call was given cannot be right, now or later
//	ErrExists       ALREADY_EXISTS       what the call was to create exists
//	ErrLocked       FAILED_PRECONDITION  the storage keeps what the call was to change or delete
//
// An error that wraps a gRPC status keeps that status. All others are UNKNOWN, and a panic is ABORTED.
var (
	ErrNotFound    = glue.ErrNotFound
	ErrUnavailable = glue.ErrUnavailable
	ErrInvalid     = glue.ErrInvalid
	ErrExists      = glue.ErrExists
	ErrLocked      = glue.ErrLocked
)

// LockedError is an ErrLocked, for errors.As.
type LockedError = glue.LockedError

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

// Locked is Errorf whose result is an ErrLocked: the storage keeps an object until a time, or holds it, or both. The zero
// time stands for none.
func Locked(until time.Time, held bool, format string, args ...any) error {
	return glue.Locked(until, held, format, args...)
}

// Errorf is fmt.Errorf that also records where it was called. The host logs that position (error.file, error.function)
// when a call fails with the error or with one that wraps it.
func Errorf(format string, args ...any) error { return glue.Errorf(format, args...) }

// WithStack makes err record where WithStack was called, as Errorf does. A nil err stays nil.
func WithStack(err error) error { return glue.WithStack(err) }
