package pluginhost

import (
	"context"
	"errors"
	"io"

	"github.com/fullstorydev/grpchan/inprocgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
)

// inProcess holds both ends of a connection without a wire: services are registered on it as on a gRPC server, and it
// is called as a gRPC client. A call behaves as it would over the wire: messages are copies, errors are statuses, a
// panic is the status Aborted, and a caller whose context ends does not wait.
//
// Register everything before the first call; calls are safe for concurrent use.
type inProcess struct{ inprocgrpc.Channel }

func newInProcess() *inProcess {
	p := &inProcess{}
	p.WithCloner(cloner{}).WithServerUnaryInterceptor(serveUnary).WithServerStreamInterceptor(serveStream)
	return p
}

// cloner copies messages. A message of a stream is copied once: when it is sent.
type cloner struct{}

// inTransit is a message that the connection alone has.
type inTransit struct{ proto.Message }

// Clone implements inprocgrpc.Cloner.
func (cloner) Clone(message any) (any, error) {
	if sent, ok := message.(inTransit); ok {
		return sent, nil
	}
	copied, err := calls.Cloned(message)
	return inTransit{copied}, err
}

// Copy implements inprocgrpc.Cloner.
func (cloner) Copy(into, from any) error {
	if sent, ok := from.(inTransit); ok {
		return calls.MoveMessage(into, sent.Message)
	}
	return calls.CopyMessage(into, from)
}

// Invoke implements grpc.ClientConnInterface. Nothing is called when ctx has ended.
func (p *inProcess) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	return p.Channel.Invoke(ctx, method, args, reply, opts...)
}

// NewStream implements grpc.ClientConnInterface. Nothing is called when ctx has ended.
func (p *inProcess) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	return p.Channel.NewStream(ctx, desc, method, opts...)
}

// giver is an inProcess whose streams do not copy the messages of the client, for calls that give their messages away.
type giver struct{ grpc.ClientConnInterface }

// NewStream implements grpc.ClientConnInterface.
func (g giver) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	stream, err := g.ClientConnInterface.NewStream(ctx, desc, method, opts...)
	if err != nil {
		return nil, err
	}
	return givingAway{stream}, nil
}

// givingAway is the client's end of a stream whose messages are not copied when they are sent.
type givingAway struct{ grpc.ClientStream }

// SendMsg implements grpc.ClientStream.
func (s givingAway) SendMsg(message any) error {
	if m, ok := message.(proto.Message); ok {
		message = inTransit{m}
	}
	return s.ClientStream.SendMsg(message)
}

// serveUnary gives a reply and an error the form that they would have after the wire: a nil message becomes an empty
// one.
func serveUnary(
	ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (reply any, err error) {
	defer recoverTo(&err)
	reply, err = handler(ctx, request)
	if message, ok := reply.(proto.Message); ok && !message.ProtoReflect().IsValid() {
		reply = message.ProtoReflect().New().Interface()
	}
	return reply, asStatus(err)
}

// serveStream gives the errors of a stream the form that they would have after the wire.
func serveStream(
	service any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
) (err error) {
	defer recoverTo(&err)
	s := &serverStream{ServerStream: stream, hold: !info.IsServerStream}
	if err := handler(service, s); err != nil {
		return asStatus(err)
	}
	if s.held != nil {
		return stream.SendMsg(s.held)
	}
	return nil
}

// serverStream is the plugin's end of a stream. The one reply of a stream that only the client sends is held until the
// handler has returned, because it counts only if the handler succeeds.
type serverStream struct {
	grpc.ServerStream
	hold bool
	held proto.Message
}

// SendMsg implements grpc.ServerStream.
func (s *serverStream) SendMsg(message any) error {
	if !s.hold {
		return asStatus(s.ServerStream.SendMsg(message))
	}
	if s.held != nil {
		return status.Error(codes.Internal, "plugin sent more than one reply")
	}
	var err error
	s.held, err = calls.Cloned(message)
	return err
}

// RecvMsg implements grpc.ServerStream.
func (s *serverStream) RecvMsg(message any) error { return asStatus(s.ServerStream.RecvMsg(message)) }

// recoverTo turns a panic of the deferring function into the status that the function returns.
func recoverTo(err *error) {
	if value := recover(); value != nil {
		*err = status.Errorf(codes.Aborted, "plugin panicked: %v", value)
	}
}

// asStatus returns err in the form in which it would arrive over the wire.
func asStatus(err error) error {
	if _, ok := status.FromError(err); ok || errors.Is(err, io.EOF) {
		return err
	}
	return status.FromContextError(err).Err()
}
