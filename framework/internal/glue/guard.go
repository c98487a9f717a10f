package glue

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// guard registers services whose handlers return errors and panics as gRPC statuses of Velero's wire, and whose
// contexts carry the call. It wraps the service descriptions, not the server, so that it applies to every transport.
type guard struct {
	next grpc.ServiceRegistrar
	log  hclog.Logger
}

// RegisterService implements grpc.ServiceRegistrar.
func (g guard) RegisterService(desc *grpc.ServiceDesc, impl any) {
	guarded := *desc
	guarded.Methods = make([]grpc.MethodDesc, 0, len(desc.Methods))
	for _, method := range desc.Methods {
		guarded.Methods = append(guarded.Methods, grpc.MethodDesc{
			MethodName: method.MethodName,
			Handler: func(srv any, ctx context.Context, decode func(any) error,
				interceptor grpc.UnaryServerInterceptor) (reply any, err error) {
				defer g.recoverTo(&err, desc.ServiceName, method.MethodName)
				reply, err = method.Handler(srv, withCall(ctx, g.log), decode, interceptor)
				return reply, toStatus(err)
			},
		})
	}
	guarded.Streams = make([]grpc.StreamDesc, 0, len(desc.Streams))
	for _, stream := range desc.Streams {
		handle := stream.Handler
		stream.Handler = func(srv any, serverStream grpc.ServerStream) (err error) {
			defer g.recoverTo(&err, desc.ServiceName, stream.StreamName)
			return toStatus(handle(srv, callStream{serverStream, withCall(serverStream.Context(), g.log)}))
		}
		guarded.Streams = append(guarded.Streams, stream)
	}
	g.next.RegisterService(&guarded, impl)
}

// recoverTo sets err to the status of a panic in the function that defers it.
func (g guard) recoverTo(err *error, service, method string) {
	value := recover()
	if value == nil {
		return
	}
	g.log.Error("plugin panicked", "method", service+"/"+method, "panic", fmt.Sprint(value), "stack",
		string(debug.Stack()))
	*err = newStatus(codes.Aborted, fmt.Sprintf("plugin panicked: %v", value), panicFrames())
}

// toStatus returns the status that is sent for err. A status keeps its code and details, one of our typed errors gets
// the code that codeOf returns, and all others are Unknown. The details include the source position of err, if known.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	made, ok := status.FromError(err)
	if !ok {
		return withLocked(newStatus(codeOf(err), err.Error(), frames(err)), err)
	}
	sent := made.Proto()
	sent.Message = wireText(sent.GetMessage())
	made = status.FromProto(sent)
	for _, detail := range made.Details() {
		if _, ok := detail.(*shared.Stack); ok {
			return made.Err()
		}
	}
	return withFrames(made, frames(err))
}

func newStatus(code codes.Code, message string, frames []*shared.StackFrame) error {
	return withFrames(status.New(code, wireText(message)), frames)
}

func withFrames(made *status.Status, frames []*shared.StackFrame) error {
	if len(frames) > 0 {
		if detailed, err := made.WithDetails(&shared.Stack{Frames: frames}); err == nil {
			made = detailed
		}
	}
	return made.Err()
}

// maxErrorText is the maximum size, in bytes, of an error message that is sent. Statuses are sent in HTTP/2 headers; if
// they exceed the limit of the other side, the call ends without the message.
const maxErrorText = 32 << 10

func wireText(message string) string {
	if cut := len(message) - maxErrorText; cut > 0 {
		message = fmt.Sprintf("%s... (%d bytes more)", message[:maxErrorText], cut)
	}
	return strings.ToValidUTF8(message, "\uFFFD")
}
