package glue

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
)

var (
	// ErrNotFound is wrapped by the errors of NotFound.
	ErrNotFound = errors.New("not found")
	// ErrUnavailable is wrapped by the errors of Unavailable.
	ErrUnavailable = errors.New("unavailable")
	// ErrInvalid is wrapped by the errors of Invalid.
	ErrInvalid = errors.New("invalid")
	// ErrExists is wrapped by the errors of Exists.
	ErrExists = errors.New("exists")
	// ErrLocked is wrapped by the errors of Locked.
	ErrLocked = errors.New("locked")
	// ErrCannotCancel is returned by Cancel for an operation that cannot be stopped.
	ErrCannotCancel = errors.New("the operation cannot be stopped")
)

// typedError is an error that matches one of the sentinels.
type typedError struct {
	error
	is error
}

// Unwrap implements errors.Unwrap.
func (e *typedError) Unwrap() error { return e.error }

// Is implements errors.Is for the sentinel.
func (e *typedError) Is(target error) bool { return target == e.is } //nolint:errorlint // this is what errors.Is calls

// typed returns an error that records the caller of the exported function which calls typed.
func typed(is error, format string, args []any, skip int) error {
	return &locatedError{error: &typedError{error: fmt.Errorf(format, args...), is: is}, callers: callers(skip + 1)}
}

// Typed returns an error that wraps one of the sentinels and records the caller of its caller.
func Typed(is error, format string, args ...any) error { return typed(is, format, args, 1) }

// Invalid returns an error that wraps ErrInvalid.
func Invalid(format string, args ...any) error { return typed(ErrInvalid, format, args, 0) }

// NotFound returns an error that wraps ErrNotFound.
func NotFound(format string, args ...any) error { return typed(ErrNotFound, format, args, 0) }

// codeOf returns the code with which an error that is not a status is sent.
func codeOf(err error) codes.Code {
	switch {
	case errors.Is(err, ErrNotFound):
		return codes.NotFound
	case errors.Is(err, ErrUnavailable):
		return codes.Unavailable
	case errors.Is(err, ErrInvalid):
		return codes.InvalidArgument
	case errors.Is(err, ErrExists):
		return codes.AlreadyExists
	case errors.Is(err, ErrLocked):
		return codes.FailedPrecondition
	default:
		return codes.Unknown
	}
}

// ErrorOf returns the sentinel for a status, or nil if there is none.
func ErrorOf(code codes.Code) error {
	switch code {
	case codes.NotFound:
		return ErrNotFound
	case codes.Unavailable:
		return ErrUnavailable
	case codes.InvalidArgument:
		return ErrInvalid
	case codes.AlreadyExists:
		return ErrExists
	default:
		return nil
	}
}
