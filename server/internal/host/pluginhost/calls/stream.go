package calls

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/versioning"
)

// StreamWatch holds the limit of a stream and the function to call at its end.
type StreamWatch struct {
	Idle    time.Duration // the longest time that the plugin may take between two messages; negative means no limit
	Overdue error         // the cause of the end when the plugin took longer
	// Finish is called once, when the stream has ended, with the context of the stream. It returns the error for the
	// caller.
	Finish func(ctx context.Context, err error) error
}

// OpenStream opens a stream that is watched. As with every gRPC stream, the caller reads it to its end or cancels ctx.
func OpenStream(
	ctx context.Context, on grpc.ClientConnInterface, desc *grpc.StreamDesc, method string, opts []grpc.CallOption,
	watch StreamWatch,
) (grpc.ClientStream, error) {
	streamCtx, cancel := context.WithCancelCause(ctx)
	s := &watchedStream{ctx: streamCtx, cancel: cancel, watch: watch, serverStreams: desc.ServerStreams,
		sendsOnly: desc.ClientStreams}
	disarm := s.arm()
	inner, err := on.NewStream(streamCtx, desc, method, opts...)
	disarm()
	if err != nil {
		return nil, s.end(err)
	}
	s.ClientStream = inner
	context.AfterFunc(streamCtx, func() { _ = s.end(context.Cause(streamCtx)) })
	return s, nil
}

type watchedStream struct {
	grpc.ClientStream
	ctx           context.Context
	cancel        context.CancelCauseFunc
	watch         StreamWatch
	serverStreams bool

	mu        sync.Mutex
	sendsOnly bool   // the host has not closed its side, so the plugin may wait for messages
	receiving bool   // RecvMsg is waiting
	disarm    func() // stops the idle timer of RecvMsg; nil when it does not run
	ended     bool
	err       error
}

// arm starts the idle timer; the function that it returns stops it.
func (s *watchedStream) arm() func() {
	if s.watch.Idle < 0 {
		return func() {}
	}
	timer := time.AfterFunc(s.watch.Idle, func() { s.cancel(s.watch.Overdue) })
	return func() { timer.Stop() }
}

// end calls Finish once and keeps the error with which the stream ended.
func (s *watchedStream) end(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.ended = true
		if errors.Is(err, io.EOF) {
			s.err = err
			var early error
			if s.sendsOnly {
				early = fmt.Errorf("%w: the plugin ended the stream before it had received all of it", versioning.ErrInvalidReply)
			}
			_ = s.watch.Finish(s.ctx, early)
		} else {
			s.err = s.watch.Finish(s.ctx, err)
		}
		s.cancel(nil)
	}
	return s.err
}

// SendMsg implements grpc.ClientStream. After io.EOF, RecvMsg returns the error of the stream.
func (s *watchedStream) SendMsg(m any) error {
	disarm := s.arm()
	defer disarm()
	err := s.ClientStream.SendMsg(m)
	if err != nil && !errors.Is(err, io.EOF) {
		return s.end(err)
	}
	return err
}

// CloseSend implements grpc.ClientStream. From now on, RecvMsg waits for the plugin alone, so the idle timer runs.
func (s *watchedStream) CloseSend() error {
	s.mu.Lock()
	s.sendsOnly = false
	if s.receiving && s.disarm == nil {
		s.disarm = s.arm()
	}
	s.mu.Unlock()
	return s.ClientStream.CloseSend()
}

// receive is called when RecvMsg begins to wait. The returned function is called when RecvMsg has received.
func (s *watchedStream) receive() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.receiving = true
	if !s.sendsOnly {
		s.disarm = s.arm()
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.receiving = false
		if s.disarm != nil {
			s.disarm()
			s.disarm = nil
		}
	}
}

// RecvMsg implements grpc.ClientStream.
func (s *watchedStream) RecvMsg(m any) error {
	received := s.receive()
	err := s.ClientStream.RecvMsg(m)
	received()
	switch {
	case err != nil:
		return s.end(err)
	case !s.serverStreams:
		_ = s.end(io.EOF)
	}
	return nil
}
