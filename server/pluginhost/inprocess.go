package pluginhost

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/server/pluginhost/calls"
)

// inProcess is both ends of a connection without a wire: services are registered on it as on a gRPC server, and it
// is called as a gRPC client. What can be observed is as over the wire: messages are copies, errors are
// statuses, a panic is the status Aborted, a caller whose context ends does not wait, and nothing of the caller's
// context but its end reaches the handler.
//
// Register everything before the first call; calls are safe for concurrent use.
type inProcess struct {
	methods map[string]handler // by full method name
}

// handler is a registered method; one of unary and stream is set.
type handler struct {
	service any
	unary   *grpc.MethodDesc
	stream  *grpc.StreamDesc
}

var (
	_ grpc.ClientConnInterface = (*inProcess)(nil)
	_ grpc.ServiceRegistrar    = (*inProcess)(nil)
)

func newInProcess() *inProcess {
	return &inProcess{methods: map[string]handler{}}
}

// RegisterService implements grpc.ServiceRegistrar.
func (p *inProcess) RegisterService(desc *grpc.ServiceDesc, service any) {
	for i := range desc.Methods {
		p.methods[fullMethod(desc.ServiceName, desc.Methods[i].MethodName)] = handler{service: service, unary: &desc.Methods[i]}
	}
	for i := range desc.Streams {
		p.methods[fullMethod(desc.ServiceName, desc.Streams[i].StreamName)] = handler{service: service, stream: &desc.Streams[i]}
	}
}

func fullMethod(service, method string) string { return "/" + service + "/" + method }

// find answers unknown methods as a gRPC server does.
func (p *inProcess) find(method string) (handler, error) {
	found, ok := p.methods[method]
	if !ok {
		service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
		return handler{}, status.Errorf(codes.Unimplemented, "unknown method %s for service %s", name, service)
	}
	return found, nil
}

// Invoke implements grpc.ClientConnInterface.
func (p *inProcess) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	found, err := p.find(method)
	if err != nil {
		return err
	}
	if found.unary == nil {
		return status.Errorf(codes.Internal, "%s is a stream", method)
	}
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	request, err := calls.Cloned(args)
	if err != nil {
		return err
	}
	type answer struct {
		reply any
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		var a answer
		defer func() { answers <- a }()
		defer recoverTo(&a.err)
		decode := func(into any) error { return calls.CopyMessage(into, request) }
		a.reply, a.err = found.unary.Handler(found.service, serverContext{ctx}, decode, nil)
	}()
	select {
	case a := <-answers:
		if a.err != nil {
			return asStatus(a.err)
		}
		return calls.CopyMessage(reply, a.reply)
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// recoverTo makes a panic of the deferring function the status that it answers.
func recoverTo(err *error) {
	if value := recover(); value != nil {
		*err = status.Errorf(codes.Aborted, "plugin panicked: %v", value)
	}
}

// asStatus gives err the form in which it would arrive over the wire.
func asStatus(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.FromContextError(err).Err()
}

// serverContext is what a handler sees of its caller's context: when it ends, and the metadata that was sent.
type serverContext struct{ caller context.Context }

func (c serverContext) Deadline() (time.Time, bool) { return c.caller.Deadline() }
func (c serverContext) Done() <-chan struct{}       { return c.caller.Done() }
func (c serverContext) Err() error                  { return c.caller.Err() }

// Value implements context.Context. gRPC keeps incoming metadata under a key of its own, which a probe context
// with the sent metadata knows.
func (c serverContext) Value(key any) any {
	sent, ok := metadata.FromOutgoingContext(c.caller)
	if !ok {
		return nil
	}
	return metadata.NewIncomingContext(valueless{c.caller}, sent).Value(key)
}

// valueless is a context without values.
type valueless struct{ context.Context }

func (valueless) Value(any) any { return nil }
