package pluginhost

import (
	"context"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/cleat-dev/cleat/server/pluginhost/calls"
)

// streamWindow is how many messages one side may be ahead of the other, in each direction.
const streamWindow = 4

// NewStream implements grpc.ClientConnInterface.
func (p *inProcess) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	found, err := p.find(method)
	if err != nil {
		return nil, err
	}
	if found.stream == nil {
		return nil, status.Errorf(codes.Internal, "%s is not a stream", method)
	}
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	handlerCtx, cancel := context.WithCancel(ctx)
	pipe := &streamPipe{
		ctx:      handlerCtx,
		toServer: make(chan proto.Message, streamWindow),
		toClient: make(chan proto.Message, streamWindow),
		over:     make(chan struct{}),
	}
	go func() {
		defer cancel()
		defer close(pipe.over)
		defer recoverTo(&pipe.err)
		pipe.err = found.stream.Handler(found.service, &serverEnd{streamPipe: pipe})
	}()
	return &clientEnd{streamPipe: pipe, caller: ctx, desc: desc}, nil
}

// streamPipe is what both ends of a stream share.
type streamPipe struct {
	ctx      context.Context // the handler's: ends with the caller's or when the handler has returned
	toServer chan proto.Message
	toClient chan proto.Message // never closed: over ends it
	over     chan struct{}      // closed when the handler has returned
	err      error              // what it returned; valid after over
}

// clientEnd is the caller's side.
type clientEnd struct {
	*streamPipe
	caller    context.Context
	desc      *grpc.StreamDesc
	closeSend sync.Once
}

func (c *clientEnd) Header() (metadata.MD, error) { return metadata.MD{}, nil }
func (c *clientEnd) Trailer() metadata.MD         { return metadata.MD{} }
func (c *clientEnd) Context() context.Context     { return c.caller }

// CloseSend implements grpc.ClientStream.
func (c *clientEnd) CloseSend() error {
	c.closeSend.Do(func() { close(c.toServer) })
	return nil
}

// SendMsg implements grpc.ClientStream: io.EOF means that RecvMsg knows why the stream is over.
func (c *clientEnd) SendMsg(m any) error {
	message, err := calls.Cloned(m)
	if err != nil {
		return err
	}
	select { // a stream that is over takes nothing, even if there is room
	case <-c.over:
		return io.EOF
	default:
	}
	select {
	case c.toServer <- message:
	case <-c.over:
		return io.EOF
	case <-c.caller.Done():
		return status.FromContextError(c.caller.Err()).Err()
	}
	if !c.desc.ClientStreams {
		return c.CloseSend()
	}
	return nil
}

// RecvMsg implements grpc.ClientStream.
func (c *clientEnd) RecvMsg(m any) error {
	message, err := c.next()
	if err != nil {
		return err
	}
	if err := calls.CopyMessage(m, message); err != nil || c.desc.ServerStreams {
		return err
	}
	// The one answer of a stream that only the client sends counts when the handler has ended well.
	switch _, err := c.next(); err {
	case io.EOF:
		return nil
	case nil:
		return status.Error(codes.Internal, "plugin sent more than one answer")
	default:
		return err
	}
}

// next gives the next message from the handler, and after the last one the end of the stream.
func (c *clientEnd) next() (proto.Message, error) {
	select {
	case message := <-c.toClient:
		return message, nil
	case <-c.caller.Done():
		return nil, status.FromContextError(c.caller.Err()).Err()
	case <-c.over:
	}
	select { // what it sent before its end
	case message := <-c.toClient:
		return message, nil
	default:
	}
	if c.err != nil {
		return nil, asStatus(c.err)
	}
	return nil, io.EOF
}

// serverEnd is the handler's side.
type serverEnd struct{ *streamPipe }

func (s *serverEnd) SetHeader(metadata.MD) error  { return nil }
func (s *serverEnd) SendHeader(metadata.MD) error { return nil }
func (s *serverEnd) SetTrailer(metadata.MD)       {}
func (s *serverEnd) Context() context.Context     { return serverContext{s.ctx} }

// SendMsg implements grpc.ServerStream.
func (s *serverEnd) SendMsg(m any) error {
	message, err := calls.Cloned(m)
	if err != nil {
		return err
	}
	select {
	case s.toClient <- message:
		return nil
	case <-s.ctx.Done():
		return status.FromContextError(s.ctx.Err()).Err()
	}
}

// RecvMsg implements grpc.ServerStream.
func (s *serverEnd) RecvMsg(m any) error {
	select {
	case message, ok := <-s.toServer:
		if !ok {
			return io.EOF
		}
		return calls.CopyMessage(m, message)
	case <-s.ctx.Done():
		return status.FromContextError(s.ctx.Err()).Err()
	}
}
