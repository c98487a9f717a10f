package versioning

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

var (
	// ErrNoOperations is returned by versions without asynchronous operations when called about one.
	ErrNoOperations = errors.New("this version of the plugin does not support asynchronous operations")
	// ErrNotCancelled is returned by Cancel for an operation that the plugin cannot stop.
	ErrNotCancelled = errors.New("the plugin cannot stop this operation")
	// ErrInvalidReply is wrapped by the error of a call whose reply breaks the
	// contract of its kind.
	ErrInvalidReply = errors.New("invalid reply")

	// ErrNotFound is in the error of a call that the plugin ended with framework.ErrNotFound or with that gRPC status.
	ErrNotFound = framework.ErrNotFound
	// ErrUnavailable is in the error of a call that the plugin ended with framework.ErrUnavailable or with that gRPC
	// status.
	ErrUnavailable = framework.ErrUnavailable
	// ErrInvalid is in the error of a call that the plugin ended with framework.ErrInvalid or with the gRPC status
	// InvalidArgument.
	ErrInvalid = framework.ErrInvalid
	// ErrExists is in the error of a call that the plugin ended with framework.ErrExists or with the gRPC status
	// AlreadyExists.
	ErrExists = framework.ErrExists
	// ErrLocked is in the error of a call that the plugin ended with framework.ErrLocked. errors.As finds the
	// framework.LockedError with the time.
	ErrLocked = framework.ErrLocked
)

// Error is the error of a call to a plugin. errors.Is finds context.Canceled and context.DeadlineExceeded in it
// if they ended the call; errors.As finds the error that the connection returned.
type Error struct {
	Kind   string // "BackupItemAction", without the version
	Plugin string // "example.io/stamp"
	// Frames are the positions in the plugin's source where the error was made, innermost first; empty when the plugin
	// does not report them.
	Frames []Frame

	message string
	causes  []error
}

// Frame is a position in a plugin's source.
type Frame struct {
	File     string
	Line     int32
	Function string
}

// Error returns "Kind(plugin): message".
func (e *Error) Error() string { return fmt.Sprintf("%s(%s): %s", e.Kind, e.Plugin, e.message) }

// Unwrap returns the causes.
func (e *Error) Unwrap() []error { return e.causes }

// File returns the file of the innermost frame, or "" if it is not known.
func (e *Error) File() string { return e.innermost().File }

// Line returns the line of the innermost frame, or 0 if it is not known.
func (e *Error) Line() int32 { return e.innermost().Line }

// Function returns the function of the innermost frame, or "" if it is not known.
func (e *Error) Function() string { return e.innermost().Function }

func (e *Error) innermost() Frame {
	if len(e.Frames) == 0 {
		return Frame{}
	}
	return e.Frames[0]
}

// Plugin identifies a plugin. Every facade embeds it.
type Plugin struct {
	kind string
	name string
}

// NewPlugin returns the Plugin with this kind, without its version, and name.
func NewPlugin(kind, name string) Plugin { return Plugin{kind: kind, name: name} }

// Name returns the plugin's name.
func (p Plugin) Name() string { return p.name }

// Wrap returns the *Error for the error of a call. It returns nil for nil, and an error of this plugin unchanged.
func (p Plugin) Wrap(err error) error {
	if err == nil {
		return nil
	}
	var own *Error
	if errors.As(err, &own) && own.Kind == p.kind && own.Plugin == p.name {
		return err
	}
	wrapped := &Error{Kind: p.kind, Plugin: p.name, message: err.Error(), causes: []error{err}}
	reply, ok := status.FromError(err)
	if !ok {
		return wrapped
	}
	if _, direct := err.(interface{ GRPCStatus() *status.Status }); direct { //nolint:errorlint // the message of an error around it would be lost
		wrapped.message = reply.Message()
		if wrapped.message == "" {
			wrapped.message = "failed without a message, code " + reply.Code().String()
		}
	}
	wrapped.Frames = framesOf(reply)
	switch reply.Code() {
	case codes.Canceled:
		wrapped.causes = append(wrapped.causes, context.Canceled)
	case codes.DeadlineExceeded:
		wrapped.causes = append(wrapped.causes, context.DeadlineExceeded)
	default:
		if known := hostapi.ErrorOf(reply.Code()); known != nil {
			wrapped.causes = append(wrapped.causes, known)
		}
		if locked := hostapi.LockedOf(reply); locked != nil {
			wrapped.causes = append(wrapped.causes, locked)
		}
	}
	return wrapped
}

// Reject returns the *Error for a reply that breaks the contract for the given reason.
func (p Plugin) Reject(reason error) error {
	return p.Wrap(fmt.Errorf("%w: %w", ErrInvalidReply, reason))
}

func framesOf(reply *status.Status) []Frame {
	for _, detail := range reply.Details() {
		stack, ok := detail.(*shared.Stack)
		if !ok {
			continue
		}
		frames := make([]Frame, 0, len(stack.GetFrames()))
		for _, frame := range stack.GetFrames() {
			frames = append(frames, Frame{File: frame.GetFile(), Line: frame.GetLine(), Function: frame.GetFunction()})
		}
		return frames
	}
	return nil
}
