package plugintest

import (
	"context"
	"fmt"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// Error is the error of a call, as a host receives it. According to its status, errors.Is matches it with
// framework.ErrNotFound, framework.ErrUnavailable, framework.ErrInvalid, context.Canceled or context.DeadlineExceeded.
// The verb %+v prints the frames too.
type Error struct {
	Kind    string // whatever the version: "BackupItemAction"
	Plugin  string // "example.io/stamp"
	Message string // the plugin's message
	// Code is codes.Unknown for an error of no known kind, codes.Aborted for a panic, and codes.Unavailable for a plugin
	// that has ended.
	Code codes.Code
	// Frames is the stack of the error's creation, innermost first. It is empty unless the error was created by
	// framework.Errorf, framework.WithStack or a panic.
	Frames []Frame
}

// Frame is a position in the plugin's source.
type Frame struct {
	File     string
	Line     int
	Function string
}

// Error returns what users read: "Kind(plugin): what happened".
func (e *Error) Error() string { return fmt.Sprintf("%s(%s): %s", e.Kind, e.Plugin, e.Message) }

// Format implements fmt.Formatter.
func (e *Error) Format(state fmt.State, verb rune) {
	if verb == 'q' {
		fmt.Fprintf(state, "%q", e.Error())
		return
	}
	_, _ = io.WriteString(state, e.Error())
	if verb == 'v' && state.Flag('+') {
		for _, frame := range e.Frames {
			fmt.Fprintf(state, "\n%s\n\t%s:%d", frame.Function, frame.File, frame.Line)
		}
	}
}

// Is implements errors.Is.
func (e *Error) Is(target error) bool {
	return target != nil && target == hostapi.ErrorOf(e.Code) || //nolint:errorlint // this is what errors.Is calls
		target == context.Canceled && e.Code == codes.Canceled || //nolint:errorlint // this is what errors.Is calls
		target == context.DeadlineExceeded && e.Code == codes.DeadlineExceeded //nolint:errorlint // as above
}

// invalid returns the *Error for a rejected configuration.
func (t target) invalid(message string) error {
	return &Error{Kind: t.kind, Plugin: t.name, Message: message, Code: codes.InvalidArgument}
}

// wrap returns the *Error for the error of a call; nil stays nil.
func (t target) wrap(err error) error {
	if err == nil {
		return nil
	}
	answered := status.Convert(err)
	wrapped := &Error{Kind: t.kind, Plugin: t.name, Message: answered.Message(), Code: answered.Code()}
	for _, detail := range answered.Details() {
		stack, ok := detail.(*shared.Stack)
		if !ok {
			continue
		}
		for _, frame := range stack.GetFrames() {
			wrapped.Frames = append(wrapped.Frames, Frame{File: frame.GetFile(), Line: int(frame.GetLine()),
				Function: frame.GetFunction()})
		}
		break
	}
	return wrapped
}
