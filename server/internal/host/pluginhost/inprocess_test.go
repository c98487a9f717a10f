package pluginhost

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	manifestwriterv1 "github.com/cleat-dev/cleat/proto/cleat/manifestwriter/v1"
	objectstorev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// wireStore is a service whose behaviour would reveal differences between a wire and the in-process connection.
type wireStore struct {
	objectstorev1.UnimplementedObjectStoreServer
	kept    *objectstorev1.ListObjectsResponse
	started chan struct{}
	ended   chan error
	body    []byte // of the last upload's last message
}

type valueKey struct{}

func (s *wireStore) ListObjects(
	ctx context.Context, req *objectstorev1.ListObjectsRequest,
) (*objectstorev1.ListObjectsResponse, error) {
	switch req.GetPrefix() {
	case "error":
		return nil, errors.New("plain")
	case "status":
		return nil, status.Error(codes.NotFound, "nowhere")
	case "context error":
		return nil, context.DeadlineExceeded
	case "nothing":
		return nil, nil
	case "wait":
		close(s.started)
		<-ctx.Done()
		s.ended <- ctx.Err()
		return nil, ctx.Err()
	case "value":
		if ctx.Value(valueKey{}) != nil {
			return nil, errors.New("a value has crossed the wire")
		}
		sent, _ := metadata.FromIncomingContext(ctx)
		if _, crossed := metadata.FromOutgoingContext(ctx); crossed {
			return nil, errors.New("outgoing metadata of the caller")
		}
		return &objectstorev1.ListObjectsResponse{Keys: sent.Get("key")}, nil
	}
	req.Bucket = "changed by the plugin"
	return s.kept, nil
}

func (s *wireStore) GetObject(
	req *objectstorev1.GetObjectRequest, stream grpc.ServerStreamingServer[objectstorev1.Bytes],
) error {
	for i := range 100 {
		if err := stream.Send(&objectstorev1.Bytes{Data: []byte{byte(i)}}); err != nil {
			s.ended <- err
			return err
		}
		if req.GetKey() == "broken" && i == 49 {
			return status.Error(codes.DataLoss, "bad block")
		}
	}
	for req.GetKey() == "endless" {
		if err := stream.Send(&objectstorev1.Bytes{}); err != nil {
			s.ended <- stream.Context().Err()
			return err
		}
	}
	return nil
}

func (s *wireStore) PutObject(stream grpc.ClientStreamingServer[objectstorev1.PutObjectRequest, shared.Empty]) error {
	for i := 0; ; i++ {
		message, err := stream.Recv()
		if err == nil {
			s.body = message.GetBody()
		}
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&shared.Empty{})
		}
		if err != nil {
			s.ended <- err
			return err
		}
		if message.GetKey() == "reply, then fail" {
			_ = stream.SendAndClose(&shared.Empty{})
			return status.Error(codes.DataLoss, "tape torn")
		}
		if message.GetKey() == "refuse" && i == 2 {
			return status.Error(codes.ResourceExhausted, "tape full")
		}
	}
}

// overBoth runs a test on the in-process connection and on a real one, with the same assertions.
func overBoth(t *testing.T, test func(t *testing.T, client objectstorev1.ObjectStoreClient, store *wireStore)) {
	t.Helper()
	newStore := func() *wireStore {
		return &wireStore{
			kept:    &objectstorev1.ListObjectsResponse{Keys: []string{"kept"}},
			started: make(chan struct{}), ended: make(chan error, 1),
		}
	}
	t.Run("in process", func(t *testing.T) {
		t.Parallel()
		store, services := newStore(), newInProcess()
		objectstorev1.RegisterObjectStoreServer(services, store)
		test(t, objectstorev1.NewObjectStoreClient(services), store)
	})
	t.Run("over a wire", func(t *testing.T) {
		t.Parallel()
		store, server, listener := newStore(), grpc.NewServer(), bufconn.Listen(1<<20)
		objectstorev1.RegisterObjectStoreServer(server, store)
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(server.Stop)
		client, err := grpc.NewClient("passthrough:x", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
		require.NoError(t, err)
		t.Cleanup(func() { _ = client.Close() })
		test(t, objectstorev1.NewObjectStoreClient(client), store)
	})
}

func TestInProcessUnaryCallsMatchWire(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, client objectstorev1.ObjectStoreClient, store *wireStore) {
		list := func(prefix string) (*objectstorev1.ListObjectsResponse, error) {
			return client.ListObjects(t.Context(), &objectstorev1.ListObjectsRequest{Prefix: prefix})
		}
		for prefix, want := range map[string]string{
			"error":         "rpc error: code = Unknown desc = plain",
			"status":        "rpc error: code = NotFound desc = nowhere",
			"context error": "rpc error: code = DeadlineExceeded desc = context deadline exceeded",
		} {
			_, err := list(prefix)
			require.EqualError(t, err, want)
		}
		answer, err := list("nothing")
		require.NoError(t, err)
		require.Empty(t, answer.GetKeys())

		request := &objectstorev1.ListObjectsRequest{Bucket: "mine"}
		answer, err = client.ListObjects(t.Context(), request)
		require.NoError(t, err)
		require.Equal(t, "mine", request.GetBucket(), "the plugin has a copy of the request")
		answer.Keys[0] = "changed by the host"
		require.Equal(t, "kept", store.kept.GetKeys()[0], "the host has a copy of the answer")

		ctx := metadata.AppendToOutgoingContext(context.WithValue(t.Context(), valueKey{}, "v"), "key", "sent")
		answer, err = client.ListObjects(ctx, &objectstorev1.ListObjectsRequest{Prefix: "value"})
		require.NoError(t, err)
		require.Equal(t, []string{"sent"}, answer.GetKeys())

		_, err = client.DeleteObject(t.Context(), &objectstorev1.DeleteObjectRequest{})
		require.Equal(t, codes.Unimplemented, status.Code(err))
	})
}

func TestInProcessCancellationMatchesWire(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, client objectstorev1.ObjectStoreClient, store *wireStore) {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-store.started
			cancel()
		}()
		_, err := client.ListObjects(ctx, &objectstorev1.ListObjectsRequest{Prefix: "wait"})
		require.Equal(t, codes.Canceled, status.Code(err))
		require.ErrorIs(t, <-store.ended, context.Canceled)
		_, err = client.ListObjects(ctx, &objectstorev1.ListObjectsRequest{})
		require.Equal(t, codes.Canceled, status.Code(err), "nothing is called any more")
	})
}

func TestInProcessDownloadsMatchWire(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, client objectstorev1.ObjectStoreClient, store *wireStore) {
		read := func(key string) (int, error) {
			stream, err := client.GetObject(t.Context(), &objectstorev1.GetObjectRequest{Key: key})
			require.NoError(t, err)
			for n := 0; ; n++ {
				message, err := stream.Recv()
				if err != nil {
					return n, err
				}
				require.Equal(t, []byte{byte(n)}, message.GetData())
			}
		}
		n, err := read("whole")
		require.Equal(t, 100, n)
		require.Equal(t, io.EOF, err)
		n, err = read("broken")
		require.Equal(t, 50, n, "what was sent before the error arrives")
		require.Equal(t, codes.DataLoss, status.Code(err))

		ctx, cancel := context.WithCancel(t.Context())
		stream, err := client.GetObject(ctx, &objectstorev1.GetObjectRequest{Key: "endless"})
		require.NoError(t, err)
		_, err = stream.Recv()
		require.NoError(t, err)
		cancel()
		require.Error(t, <-store.ended, "the plugin notices that nobody reads")
		for err == nil {
			_, err = stream.Recv()
		}
		require.Equal(t, codes.Canceled, status.Code(err))
	})
}

func TestInProcessUploadsMatchWire(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, client objectstorev1.ObjectStoreClient, store *wireStore) {
		stream, err := client.PutObject(t.Context())
		require.NoError(t, err)
		for range 100 {
			require.NoError(t, stream.Send(&objectstorev1.PutObjectRequest{Key: "k"}))
		}
		_, err = stream.CloseAndRecv()
		require.NoError(t, err)

		stream, err = client.PutObject(t.Context())
		require.NoError(t, err)
		for err == nil {
			err = stream.Send(&objectstorev1.PutObjectRequest{Key: "refuse"})
		}
		require.Equal(t, io.EOF, err)
		_, err = stream.CloseAndRecv()
		require.Equal(t, codes.ResourceExhausted, status.Code(err))

		stream, err = client.PutObject(t.Context())
		require.NoError(t, err)
		require.NoError(t, stream.Send(&objectstorev1.PutObjectRequest{Key: "reply, then fail"}))
		_, err = stream.CloseAndRecv()
		require.Equal(t, codes.DataLoss, status.Code(err), "a reply before an error is not a success")

		ctx, cancel := context.WithCancel(t.Context())
		stream, err = client.PutObject(ctx)
		require.NoError(t, err)
		require.NoError(t, stream.Send(&objectstorev1.PutObjectRequest{Key: "k"}))
		cancel()
		require.Equal(t, codes.Canceled, status.Code(<-store.ended), "an upload that is given up is not a short object")
	})
}

func TestMessagesThatAreGivenAwayAreNotCopied(t *testing.T) {
	t.Parallel()
	for name, gives := range map[string]bool{"copied": false, "given away": true} {
		store, services := &wireStore{}, newInProcess()
		objectstorev1.RegisterObjectStoreServer(services, store)
		var conn grpc.ClientConnInterface = services
		if gives {
			conn = giver{services}
		}
		stream, err := objectstorev1.NewObjectStoreClient(conn).PutObject(t.Context())
		require.NoError(t, err)
		body := []byte("content")
		require.NoError(t, stream.Send(&objectstorev1.PutObjectRequest{Key: "k", Body: body}))
		_, err = stream.CloseAndRecv()
		require.NoError(t, err)
		require.Equal(t, body, store.body, name)
		require.Equal(t, gives, &body[0] == &store.body[0], name)
	}
	method := manifestwriterv1.ManifestWriterService_Write_FullMethodName
	require.True(t, calls.NewTable(calls.Deadlines{}, kinds.All()).Call(method).GivesAway)
}

// badStore ignores the context of one call and panics in another.
type badStore struct {
	objectstorev1.UnimplementedObjectStoreServer
	blocked chan struct{}
}

func (s *badStore) ListObjects(
	context.Context, *objectstorev1.ListObjectsRequest,
) (*objectstorev1.ListObjectsResponse, error) {
	<-s.blocked
	return &objectstorev1.ListObjectsResponse{}, nil
}

func (s *badStore) DeleteObject(context.Context, *objectstorev1.DeleteObjectRequest) (*shared.Empty, error) {
	panic("boom")
}

func (s *badStore) GetObject(*objectstorev1.GetObjectRequest, grpc.ServerStreamingServer[objectstorev1.Bytes]) error {
	panic("boom in a stream")
}

func TestBuiltInsHaveDeadlinesAndRecoverPanics(t *testing.T) {
	t.Parallel()
	services, bad := newInProcess(), &badStore{blocked: make(chan struct{})}
	t.Cleanup(func() { close(bad.blocked) })
	objectstorev1.RegisterObjectStoreServer(services, bad)
	within := func(limit time.Duration) objectstorev1.ObjectStoreClient {
		return objectstorev1.NewObjectStoreClient(&bounded{
			inner: services, plugin: "cleat.dev/file",
			table: calls.NewTable(calls.Deadlines{Kinds: map[string]time.Duration{"ObjectStore": limit}}, kinds.All()),
		})
	}
	_, err := within(50*time.Millisecond).ListObjects(t.Context(), &objectstorev1.ListObjectsRequest{})
	require.EqualError(t, err, "plugin cleat.dev/file (built-in) did not answer ListObjects within 50ms")
	client := within(time.Hour)
	_, err = client.DeleteObject(t.Context(), &objectstorev1.DeleteObjectRequest{})
	require.EqualError(t, err, "rpc error: code = Aborted desc = plugin panicked: boom")
	stream, err := client.GetObject(t.Context(), &objectstorev1.GetObjectRequest{})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.EqualError(t, err, "rpc error: code = Aborted desc = plugin panicked: boom in a stream")
}
