package pluginhost

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
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
	request, err := cloned(args)
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
		decode := func(into any) error { return copyMessage(into, request) }
		a.reply, a.err = found.unary.Handler(found.service, serverContext{ctx}, decode, nil)
	}()
	select {
	case a := <-answers:
		if a.err != nil {
			return asStatus(a.err)
		}
		return copyMessage(reply, a.reply)
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

func cloned(message any) (proto.Message, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, status.Errorf(codes.Internal, "%T is not a protobuf message", message)
	}
	return proto.Clone(m), nil
}

// copyMessage makes into a copy of from. No message at all is an empty one, as on the wire.
func copyMessage(into, from any) error {
	target, ok := into.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "%T is not a protobuf message", into)
	}
	proto.Reset(target)
	if from == nil {
		return nil
	}
	source, ok := from.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "%T is not a protobuf message", from)
	}
	if target.ProtoReflect().Descriptor() == source.ProtoReflect().Descriptor() {
		proto.Merge(target, source)
		return nil
	}
	// Two Go types for one message: only the wire format connects them.
	encoded, err := proto.Marshal(source)
	if err != nil {
		return status.Errorf(codes.Internal, "encode %T: %v", from, err)
	}
	if err := proto.Unmarshal(encoded, target); err != nil {
		return status.Errorf(codes.Internal, "decode %T: %v", into, err)
	}
	return nil
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

// inServer stands where the path of a binary would.
const inServer = "built-in"

// bounded sets the deadlines of calls on a connection that has no supervisor to do so, and has them observed.
type bounded struct {
	inner     grpc.ClientConnInterface
	plugin    string
	deadlines Deadlines
	observer  observer
	known     *answers // what holds for as long as the server runs
}

// bound is what facades call when a built-in is in process.
func (h *Host) bound(builtIns grpc.ClientConnInterface, plugin string) *bounded {
	return &bounded{inner: builtIns, plugin: plugin, deadlines: h.deadlines, observer: h.observer, known: &h.known}
}

// Invoke implements grpc.ClientConnInterface.
func (b *bounded) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	call := b.deadlines.classify(method).within(ctx)
	if !call.constant {
		return b.invoke(ctx, call, method, args, reply, opts)
	}
	return b.known.get(ctx, method, b.plugin, reply, func() error { return b.invoke(ctx, call, method, args, reply, opts) })
}

func (b *bounded) invoke(ctx context.Context, call call, method string, args, reply any, opts []grpc.CallOption) error {
	ctx, seen := b.observer.begin(ctx, b.plugin, inServer, call)
	ctx, cancel := withLimit(ctx, b.plugin, inServer, call)
	defer cancel()
	return seen.answered(word(ctx, call, b.inner.Invoke(ctx, method, args, reply, opts...)), reply, opts)
}

// NewStream implements grpc.ClientConnInterface.
func (b *bounded) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	call := b.deadlines.classify(method).within(ctx)
	ctx, seen := b.observer.begin(ctx, b.plugin, inServer, call)
	return openStream(ctx, b.inner, desc, method, opts, streamWatch{
		idle:    call.idle,
		overdue: &OverdueError{Plugin: b.plugin, Command: inServer, During: call.name, Limit: call.idle},
		finish: func(ctx context.Context, err error) error {
			err = word(ctx, call, err)
			seen.end(err)
			return err
		},
	})
}

// word tells the end of ctx as such.
func word(ctx context.Context, call call, err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return interrupted(call, cause)
	}
	return err
}
