package suite

import (
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Hung reports whether err means that there was no answer in time, or that the process has exited.
func Hung(err error) bool {
	code := status.Code(err)
	return code == codes.DeadlineExceeded || code == codes.Unavailable
}

// Panicked reports whether err is that of a handler that panicked (Velero's wire).
func Panicked(err error) bool {
	return status.Code(err) == codes.Aborted && strings.HasPrefix(status.Convert(err).Message(), "plugin panicked")
}

// NotHung returns err if there was no answer, or the process has exited, and nil for any other answer.
func NotHung(err error) error {
	if Hung(err) {
		return err
	}
	return nil
}
