package objectstore_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	osv1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
	objectstorev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/internal/plugintest"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

const name = "example.io/tape"

// tape is an author's store; a test sets the functions that it uses. The calls that it lacks are in
// TestAcceptBackup_WireGolden.
type tape struct {
	osv1.ObjectStore
	put func(ctx context.Context, bucket, key string, body io.Reader) error
	get func(ctx context.Context, bucket, key string) (io.ReadCloser, error)
}

func (s tape) PutObject(ctx context.Context, input *osv1.PutObjectInput) error {
	return s.put(ctx, input.Bucket, input.Key, input.Body)
}

func (s tape) GetObject(ctx context.Context, input *osv1.GetObjectInput) (*osv1.GetObjectOutput, error) {
	body, err := s.get(ctx, input.Bucket, input.Key)
	return &osv1.GetObjectOutput{Body: body}, err
}

func (tape) DeleteObject(_ context.Context, input *osv1.DeleteObjectInput) error {
	return errors.New("cannot delete " + input.Bucket + "/" + input.Key)
}

// author returns the hub over an author's store, which is configured.
func author(t *testing.T, written tape) objectstore.Store {
	t.Helper()
	store := objectstore.V1().Bind(
		plugintest.Serve(t, osv1.Register(name, func(context.Context, *framework.Setup) (osv1.ObjectStore, error) {
			return written, nil
		})), name)
	require.NoError(t, store.Init(t.Context(), nil))
	return store
}

// raw is a plugin whose replies the framework would never send.
type raw struct {
	objectstorev1.UnimplementedObjectStoreServer
	bodies   chan []byte // of PutObject, closed at its end
	putError chan error  // how the messages of PutObject ended
	early    bool        // PutObject answers at its first message
}

func (r *raw) PutObject(stream grpc.ClientStreamingServer[objectstorev1.PutObjectRequest, shared.Empty]) error {
	for {
		message, err := stream.Recv()
		if err != nil {
			close(r.bodies)
			r.putError <- err
			return stream.SendAndClose(&shared.Empty{})
		}
		if r.early {
			return stream.SendAndClose(&shared.Empty{})
		}
		if message.GetPlugin() != name || message.GetBucket() != "bucket" || message.GetKey() != "key" {
			return errors.New("every message repeats plugin, bucket and key")
		}
		r.bodies <- message.GetBody()
	}
}

func (r *raw) GetObject(
	_ *objectstorev1.GetObjectRequest, stream grpc.ServerStreamingServer[objectstorev1.Bytes],
) error {
	for _, piece := range []string{"", "one", "", "two"} {
		if err := stream.Send(&objectstorev1.Bytes{Data: []byte(piece)}); err != nil {
			return err
		}
	}
	return nil
}

func (r *raw) ListObjects(
	context.Context, *objectstorev1.ListObjectsRequest,
) (*objectstorev1.ListObjectsResponse, error) {
	return &objectstorev1.ListObjectsResponse{Keys: []string{"elsewhere/a"}}, nil
}

func (r *raw) ListCommonPrefixes(
	context.Context, *objectstorev1.ListCommonPrefixesRequest,
) (*objectstorev1.ListCommonPrefixesResponse, error) {
	return &objectstorev1.ListCommonPrefixesResponse{Prefixes: []string{"backups/a/b"}}, nil
}

func (r *raw) CreateSignedURL(
	context.Context, *objectstorev1.CreateSignedURLRequest,
) (*objectstorev1.CreateSignedURLResponse, error) {
	return &objectstorev1.CreateSignedURLResponse{Url: "secret"}, nil
}

func newRaw() *raw { return &raw{bodies: make(chan []byte, 1000), putError: make(chan error, 1)} }

func (r *raw) hub(t *testing.T) objectstore.Store {
	t.Helper()
	return objectstore.V1().Bind(plugintest.ServeRaw(t, nil, func(server *grpc.Server) {
		objectstorev1.RegisterObjectStoreServer(server, r)
	}), name)
}

func TestErrorOfTheStoreIsPrefixedOnce(t *testing.T) {
	t.Parallel()
	require.EqualError(t, author(t, tape{}).DeleteObject(t.Context(), "bucket", "key"),
		"ObjectStore(example.io/tape): cannot delete bucket/key")
}

func TestObjectsOfAnySizeArriveUnchanged(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 16383, 16384, 16385, 1 << 20} {
		content := bytes.Repeat([]byte("0123456789abcdef!"), size/17+1)[:size]
		var stored []byte
		store := author(t, tape{
			put: func(_ context.Context, _, _ string, body io.Reader) (err error) {
				stored, err = io.ReadAll(body)
				return err
			},
			get: func(context.Context, string, string) (io.ReadCloser, error) {
				return io.NopCloser(iotest.HalfReader(bytes.NewReader(stored))), nil
			},
		})
		// DataErrReader gives the last bytes together with io.EOF.
		require.NoError(t, store.PutObject(t.Context(), "bucket", "key", iotest.DataErrReader(bytes.NewReader(content))))
		require.True(t, bytes.Equal(content, stored), "%d bytes", size)
		reader, err := store.GetObject(t.Context(), "bucket", "key")
		require.NoError(t, err)
		got, err := io.ReadAll(reader)
		require.NoError(t, err)
		require.True(t, bytes.Equal(content, got), "%d bytes", size)
		require.NoError(t, reader.Close())
	}
}

func TestUploadIsSentIn16KiBPiecesThatRepeatBucketAndKey(t *testing.T) {
	t.Parallel()
	for size, want := range map[int][]int{0: {0}, 1: {1}, 16384: {16384}, 40000: {16384, 16384, 7232}} {
		plugin := newRaw()
		require.NoError(t, plugin.hub(t).PutObject(t.Context(), "bucket", "key",
			iotest.OneByteReader(bytes.NewReader(make([]byte, size)))))
		var sizes []int
		for body := range plugin.bodies {
			sizes = append(sizes, len(body))
		}
		require.Equal(t, want, sizes)
		require.Equal(t, io.EOF, <-plugin.putError)
	}
}

func TestInterruptedUploadNeverLooksComplete(t *testing.T) {
	t.Parallel()
	lost := errors.New("disk removed")
	for name, test := range map[string]struct {
		body func(cancel func()) io.Reader
		want error
	}{
		"the reader fails": {func(func()) io.Reader {
			return io.MultiReader(strings.NewReader(strings.Repeat("x", 100000)), iotest.ErrReader(lost))
		}, lost},
		"the reader fails at once": {func(func()) io.Reader {
			return io.MultiReader(strings.NewReader(strings.Repeat("x", 20000)), iotest.ErrReader(io.ErrUnexpectedEOF))
		}, io.ErrUnexpectedEOF},
		"the caller gives up": {func(cancel func()) io.Reader {
			return io.MultiReader(strings.NewReader(strings.Repeat("x", 100000)), readerFunc(func([]byte) (int, error) {
				cancel()
				return 0, io.EOF
			}))
		}, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plugin := newRaw()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			err := plugin.hub(t).PutObject(ctx, "bucket", "key", test.body(cancel))
			require.ErrorIs(t, err, test.want)
			require.ErrorContains(t, err, "ObjectStore(example.io/tape): ")
			ended := <-plugin.putError
			require.NotEqual(t, io.EOF, ended, "the plugin must not see the end of an object")
		})
	}
}

// readerFunc is an io.Reader, a function for its Read.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestStoreSeesInterruptedUpload(t *testing.T) {
	t.Parallel()
	seen, begun := make(chan error, 1), make(chan struct{})
	store := author(t, tape{put: func(_ context.Context, _, _ string, body io.Reader) error {
		close(begun)
		_, err := io.Copy(io.Discard, body)
		seen <- err
		return err
	}})
	body := io.MultiReader(strings.NewReader(strings.Repeat("x", 100000)), readerFunc(func([]byte) (int, error) {
		<-begun // a call that is given up earlier never reaches the store
		return 0, errors.New("disk removed")
	}))
	require.ErrorContains(t, store.PutObject(t.Context(), "bucket", "key", body),
		"read the content of bucket/key: disk removed")
	require.Error(t, <-seen)
}

func TestEarlyStoreErrorEndsUpload(t *testing.T) {
	t.Parallel()
	store := author(t, tape{put: func(context.Context, string, string, io.Reader) error {
		return errors.New("bucket is full")
	}})
	endless := readerFunc(func(p []byte) (int, error) { return len(p), nil })
	require.EqualError(t, store.PutObject(t.Context(), "bucket", "key", endless),
		"ObjectStore(example.io/tape): bucket is full")
}

func TestEarlyStoreReplyIsAnError(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("x", 100000)
	written := author(t, tape{put: func(_ context.Context, _, _ string, body io.Reader) error {
		_, err := io.ReadFull(body, make([]byte, 50000))
		return err
	}})
	require.ErrorContains(t, written.PutObject(t.Context(), "bucket", "key", strings.NewReader(content)),
		"before it had read the whole object")

	plugin := newRaw()
	plugin.early = true
	endless := readerFunc(func(p []byte) (int, error) { return len(p), nil })
	err := plugin.hub(t).PutObject(t.Context(), "bucket", "key", endless)
	require.ErrorIs(t, err, versioning.ErrInvalidReply)
	require.ErrorContains(t, err, "before it received all of it")
}

func TestStreamWithoutMessageIsAnUploadError(t *testing.T) {
	t.Parallel()
	conn := plugintest.Serve(t,
		osv1.Register(name, func(context.Context, *framework.Setup) (osv1.ObjectStore, error) { return tape{}, nil }))
	stream, err := objectstorev1.NewObjectStoreClient(conn).PutObject(t.Context())
	require.NoError(t, err)
	_, err = stream.CloseAndRecv()
	require.ErrorContains(t, err, "an empty object is one message")
}

func TestReadingAnObject(t *testing.T) {
	t.Parallel()
	reader, err := newRaw().hub(t).GetObject(t.Context(), "bucket", "key")
	require.NoError(t, err)
	require.NoError(t, iotest.TestReader(reader, []byte("onetwo")), "pieces without bytes are not the end")
	require.NoError(t, reader.Close())
}

func TestInterruptedDownloadIsAnError(t *testing.T) {
	t.Parallel()
	closed := errors.New("checksum is wrong")
	for name, test := range map[string]struct {
		get  func(context.Context, string, string) (io.ReadCloser, error)
		want string
	}{
		"missing": {func(context.Context, string, string) (io.ReadCloser, error) { return nil, errors.New("no such key") },
			"no such key"},
		"neither": {func(context.Context, string, string) (io.ReadCloser, error) { return nil, nil },
			"neither a reader nor an error"}, //nolint:nilnil // the mistake under test
		"breaks off": {func(context.Context, string, string) (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(strings.NewReader("half"), iotest.ErrReader(errors.New("disk removed")))), nil
		}, "disk removed"},
		"fails at Close": {func(context.Context, string, string) (io.ReadCloser, error) {
			return closer{strings.NewReader("whole"), func() error { return closed }}, nil
		}, "checksum is wrong"},
		"panics": {func(context.Context, string, string) (io.ReadCloser, error) {
			return io.NopCloser(readerFunc(func([]byte) (int, error) { panic("bad tape") })), nil
		}, "plugin panicked: bad tape"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reader, err := author(t, tape{get: test.get}).GetObject(t.Context(), "bucket", "key")
			require.NoError(t, err)
			_, err = io.ReadAll(reader)
			require.ErrorContains(t, err, test.want)
			require.ErrorContains(t, err, "ObjectStore(example.io/tape): ")
			_, again := reader.Read(make([]byte, 1))
			require.Equal(t, err, again)
			require.NoError(t, reader.Close())
		})
	}
}

// closer is a reader with a Close.
type closer struct {
	io.Reader
	close func() error
}

func (c closer) Close() error { return c.close() }

func TestClosingReaderEndsStoreCall(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	store := author(t, tape{get: func(ctx context.Context, _, _ string) (io.ReadCloser, error) {
		endless := readerFunc(func(p []byte) (int, error) { return len(p), ctx.Err() })
		return closer{endless, func() error { close(ended); return nil }}, nil
	}})
	reader, err := store.GetObject(t.Context(), "bucket", "key")
	require.NoError(t, err)
	_, err = io.ReadFull(reader, make([]byte, 100000))
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	<-ended
}

func TestInvalidListingsAndURLsAreRejected(t *testing.T) {
	t.Parallel()
	store := newRaw().hub(t)
	_, listed := store.ListObjects(t.Context(), "bucket", "backups/")
	_, folders := store.ListCommonPrefixes(t.Context(), "bucket", "backups/", "/")
	_, signed := store.CreateSignedURL(t.Context(), "bucket", "key", time.Minute)
	for _, err := range []error{listed, folders, signed} {
		require.ErrorIs(t, err, versioning.ErrInvalidReply)
		require.ErrorContains(t, err, "ObjectStore(example.io/tape): invalid reply: ")
	}
	require.False(t, slices.Contains(strings.Fields(signed.Error()), "secret"))
}
