package glue

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
)

var (
	// ErrNotFound is wrapped by errors that NotFound makes.
	ErrNotFound = errors.New("not found")
	// ErrUnavailable is wrapped by errors that Unavailable makes.
	ErrUnavailable = errors.New("unavailable")
	// ErrInvalid is wrapped by errors that Invalid makes.
	ErrInvalid = errors.New("invalid")
	// ErrCannotCancel is what Cancel returns for an operation that cannot be stopped.
	ErrCannotCancel = errors.New("the operation cannot be stopped")
)

// typedError is an error that errors.Is finds one of the sentinels in.
type typedError struct {
	error
	is error
}

// Unwrap implements errors.Unwrap.
func (e *typedError) Unwrap() error { return e.error }

// Is implements errors.Is for the sentinel.
func (e *typedError) Is(target error) bool { return target == e.is } //nolint:errorlint // this is what errors.Is calls

// typed makes an error for the caller of the exported function that calls it.
func typed(is error, format string, args []any, skip int) error {
	return &locatedError{error: &typedError{error: fmt.Errorf(format, args...), is: is}, callers: callers(skip + 1)}
}

// Typed makes an error that wraps one of the sentinels and knows the caller of its caller.
func Typed(is error, format string, args ...any) error { return typed(is, format, args, 1) }

// Invalid makes an error that wraps ErrInvalid.
func Invalid(format string, args ...any) error { return typed(ErrInvalid, format, args, 0) }

// NotFound makes an error that wraps ErrNotFound.
func NotFound(format string, args ...any) error { return typed(ErrNotFound, format, args, 0) }

// codeOf returns the status that an error of no status is sent with.
func codeOf(err error) codes.Code {
	switch {
	case errors.Is(err, ErrNotFound):
		return codes.NotFound
	case errors.Is(err, ErrUnavailable):
		return codes.Unavailable
	case errors.Is(err, ErrInvalid):
		return codes.InvalidArgument
	default:
		return codes.Unknown
	}
}

// ErrorOf returns the sentinel that a status stands for; nil when it stands for none.
func ErrorOf(code codes.Code) error {
	switch code {
	case codes.NotFound:
		return ErrNotFound
	case codes.Unavailable:
		return ErrUnavailable
	case codes.InvalidArgument:
		return ErrInvalid
	default:
		return nil
	}
}
