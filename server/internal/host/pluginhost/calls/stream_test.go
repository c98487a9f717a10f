package calls

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/versioning"
)

// silent is a connection whose streams accept all messages and never reply.
type silent struct {
	grpc.ClientConnInterface
	receiving chan struct{} // gets a value when a stream begins to wait
}

func (c silent) NewStream(
	ctx context.Context, _ *grpc.StreamDesc, _ string, _ ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return silentStream{ctx: ctx, receiving: c.receiving}, nil
}

type silentStream struct {
	grpc.ClientStream
	ctx       context.Context
	receiving chan struct{}
}

func (s silentStream) SendMsg(any) error { return nil }
func (s silentStream) CloseSend() error  { return nil }
func (s silentStream) RecvMsg(any) error {
	s.receiving <- struct{}{}
	<-s.ctx.Done()
	return s.ctx.Err()
}

// TestIdleTimerStartsAfterCloseSend checks that RecvMsg waits without a limit while messages are still sent, and for
// the idle time once CloseSend was called, even if RecvMsg was called before.
func TestIdleTimerStartsAfterCloseSend(t *testing.T) {
	t.Parallel()
	overdue := &OverdueError{Plugin: "example.io/silent", During: "Write"}
	conn := silent{receiving: make(chan struct{}, 1)}
	stream, err := OpenStream(t.Context(), conn, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/x/Write",
		nil, StreamWatch{
			Idle: 10 * time.Millisecond, Overdue: overdue,
			Finish: func(ctx context.Context, _ error) error { return context.Cause(ctx) },
		})
	require.NoError(t, err)
	received := make(chan error, 1)
	go func() { received <- stream.RecvMsg(nil) }()
	<-conn.receiving
	require.NoError(t, stream.SendMsg(nil))
	require.NoError(t, stream.CloseSend())
	require.ErrorIs(t, <-received, overdue)
}

// eager is a connection to a plugin that ends a stream as soon as it begins.
type eager struct{ grpc.ClientConnInterface }

func (eager) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return eagerStream{}, nil
}

type eagerStream struct{ grpc.ClientStream }

func (eagerStream) SendMsg(any) error { return io.EOF }
func (eagerStream) RecvMsg(any) error { return nil }
func (eagerStream) CloseSend() error  { return nil }

func TestStreamEndedEarlyByPluginIsInvalid(t *testing.T) {
	t.Parallel()
	for name, whole := range map[string]bool{"before": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ended error
			stream, err := OpenStream(t.Context(), eager{}, &grpc.StreamDesc{ClientStreams: true}, "/x/PutObject", nil,
				StreamWatch{
					Idle: -1, Finish: func(_ context.Context, err error) error { ended = err; return err },
				})
			require.NoError(t, err)
			require.ErrorIs(t, stream.SendMsg(nil), io.EOF)
			if whole {
				require.NoError(t, stream.CloseSend())
			}
			require.NoError(t, stream.RecvMsg(nil), "the facade returns the error")
			require.Equal(t, !whole, errors.Is(ended, versioning.ErrInvalidReply))
		})
	}
}
