package volume

import "os"

// Error is an error of the volume, and not of the repository or its storage.
type Error struct{ Err error }

// Error implements error.
func (e *Error) Error() string { return "volume: " + e.Err.Error() }

// Unwrap returns the error of the system.
func (e *Error) Unwrap() error { return e.Err }

// problem returns the error of an operation on an object of the volume; nil for none.
func problem(op, at string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{&os.PathError{Op: op, Path: at, Err: err}}
}
