// Package storetest tests what the server requires of the built-in object stores beyond the contract of the kind:
// errors name the missing thing and the remedy, and a failed upload leaves no object. Run also checks the contract
// itself, with framework/conformance.
//
// It may import framework and testify. Start with Run.
package storetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/framework/conformance"
	"github.com/cleat-dev/cleat/framework/hostapi"
	objectstorev1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
	"github.com/cleat-dev/cleat/framework/plugintest"
	wirev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
)

// Fixture is one kind of storage.
type Fixture struct {
	// Register is the store's registration.
	Register func() framework.Registration
	// Config returns the argument of the store's Init for a new and empty bucket, with the key "bucket".
	Config func(t *testing.T) map[string]string
	// New returns a store and an empty bucket in it. It is called once per test.
	New func(t *testing.T) (store objectstorev1.ObjectStore, bucket string)
	// Unfinished lists what failed uploads have left behind.
	Unfinished func(t *testing.T, bucket string) []string
}

// Run runs the suite. Its tests run in parallel.
func Run(t *testing.T, fixture Fixture) {
	t.Run("the contract of the kind", func(t *testing.T) {
		t.Parallel()
		conformance.Test(t, conformance.InProcess(fixture.Register()), conformance.WithConfig("", fixture.Config(t)))
	})
	for name, test := range map[string]func(*testing.T, Fixture){
		"a missing object is an error that names it":     missing,
		"a body that fails leaves nothing":               brokenBody,
		"a cancelled upload leaves nothing":              cancelled,
		"a put that fails keeps the object of before":    brokenReplace,
		"a missing bucket is an error that says so":      missingBucket,
		"an object is created once":                      createOnce,
		"a range of an object is read":                   ranges,
		"a call before Init is an error and not a panic": beforeInit,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, fixture)
		})
	}
}

func put(t *testing.T, s objectstorev1.ObjectStore, bucket, key, content string) {
	t.Helper()
	// A body that implements only io.Reader, like one that comes from the wire.
	require.NoError(t, s.PutObject(t.Context(), &objectstorev1.PutObjectInput{Bucket: bucket, Key: key,
		Body: io.MultiReader(strings.NewReader(content))}))
}

func get(t *testing.T, s objectstorev1.ObjectStore, bucket, key string) string {
	t.Helper()
	object, err := s.GetObject(t.Context(), &objectstorev1.GetObjectInput{Bucket: bucket, Key: key})
	require.NoError(t, err)
	content, err := io.ReadAll(object.Body)
	require.NoError(t, err)
	require.NoError(t, object.Body.Close())
	return string(content)
}

func beforeInit(t *testing.T, f Fixture) {
	plugin := plugintest.Run(t, f.Register())
	client, name, bucket := wirev1.NewObjectStoreClient(plugin.Conn()), plugin.Registered()[0].Name, "bucket"
	_, err := client.ListObjects(t.Context(), &wirev1.ListObjectsRequest{Plugin: name, Bucket: bucket})
	require.ErrorContains(t, err, "call Init first")
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	put, err := client.PutObject(t.Context())
	require.NoError(t, err)
	require.NoError(t, put.Send(&wirev1.PutObjectRequest{Plugin: name, Bucket: bucket, Key: "key", Body: []byte("x")}))
	_, err = put.CloseAndRecv()
	require.ErrorContains(t, err, "call Init first")
	_, err = client.CreateSignedURL(t.Context(), &wirev1.CreateSignedURLRequest{Plugin: name, Bucket: bucket, Key: "key",
		Ttl: int64(time.Minute)})
	require.ErrorContains(t, err, "call Init first")
}

func missing(t *testing.T, f Fixture) {
	s, bucket := f.New(t)
	object, err := s.GetObject(t.Context(), &objectstorev1.GetObjectInput{Bucket: bucket, Key: "backups/none/none.tar.gz"})
	if err == nil {
		_, err = io.ReadAll(object.Body)
	}
	require.ErrorIs(t, err, framework.ErrNotFound)
	require.ErrorContains(t, err, "backups/none/none.tar.gz")
	require.ErrorContains(t, err, bucket)
	require.ErrorContains(t, err, "no such object")
}

// createOnce asks the plugin as the host does: not to replace an object.
func createOnce(t *testing.T, f Fixture) {
	plugin := plugintest.Run(t, f.Register())
	client, name, config := wirev1.NewObjectStoreClient(plugin.Conn()), plugin.Registered()[0].Name, f.Config(t)
	_, err := client.Init(t.Context(), &wirev1.ObjectStoreInitRequest{Plugin: name, Config: config})
	require.NoError(t, err)
	create := func(ctx context.Context, key string, content io.Reader) error {
		stream, err := client.PutObject(ctx)
		require.NoError(t, err)
		for piece, err := range hostapi.Pieces(content) {
			require.NoError(t, err)
			if stream.Send(&wirev1.PutObjectRequest{Plugin: name, Bucket: config["bucket"], Key: key, Body: piece}) != nil {
				break // the reply has the reason
			}
		}
		_, err = stream.CloseAndRecv()
		return err
	}
	for key, size := range map[string]int64{"backups/a/velero-backup.json": 1000, "backups/a/a.tar.gz": largeSize} {
		require.NoError(t, create(hostapi.IfAbsent(t.Context()), key, noise(size)))
		err := create(hostapi.IfAbsent(t.Context()), key, noise(size))
		require.Equal(t, codes.AlreadyExists, status.Code(err), "%v", err)
		require.ErrorContains(t, err, key)
		require.NoError(t, create(t.Context(), key, noise(size)), "others replace it")
	}
}

// ranges reads parts of an object, at its ends, in the middle and behind its end.
func ranges(t *testing.T, f Fixture) {
	s, bucket := f.New(t)
	content := strings.Repeat("0123456789", 20_000)
	put(t, s, bucket, "backups/b/b.tar.gz", content)
	for _, asked := range []objectstorev1.Range{{}, {Length: 1}, {Offset: -7}, {Offset: -1 << 30},
		{Offset: 70_000, Length: 100}, {Offset: 199_999, Length: 10}, {Offset: 200_000}, {Offset: 1 << 30, Length: 1}} {
		object, err := s.GetObject(t.Context(), &objectstorev1.GetObjectInput{Bucket: bucket, Key: "backups/b/b.tar.gz",
			Range: &asked})
		require.NoError(t, err, "%+v", asked)
		offset, length := asked.In(int64(len(content)))
		require.Equal(t, &objectstorev1.Part{Offset: offset, Size: int64(len(content))}, object.Part, "%+v", asked)
		read, err := io.ReadAll(object.Body)
		require.NoError(t, err)
		require.NoError(t, object.Body.Close())
		require.Equal(t, content[offset:offset+length], string(read), "%+v", asked)
	}
	_, err := s.GetObject(t.Context(), &objectstorev1.GetObjectInput{Bucket: bucket, Key: "backups/none/none.tar.gz",
		Range: &objectstorev1.Range{Offset: -7}})
	require.ErrorIs(t, err, framework.ErrNotFound)
	require.ErrorContains(t, err, "backups/none/none.tar.gz")
}

// noise returns n bytes that do not compress. They are always the same.
func noise(n int64) io.Reader { return io.LimitReader(&noiseReader{}, n) }

type noiseReader struct {
	block [sha256.Size]byte
	rest  []byte
}

func (r *noiseReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		r.block = sha256.Sum256(r.block[:])
		r.rest = r.block[:]
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

const largeSize = 20<<20 + 12345

var errBody = errors.New("the body broke")

// sizes are the numbers of bytes that arrive before an upload fails: none, less than a part of a multipart upload,
// several parts.
func sizes() []int64 { return []int64{0, 1000, largeSize} }

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func brokenBody(t *testing.T, f Fixture) {
	s, bucket := f.New(t)
	for _, size := range sizes() {
		err := s.PutObject(t.Context(), &objectstorev1.PutObjectInput{Bucket: bucket, Key: "backups/b/b.tar.gz",
			Body: io.MultiReader(noise(size), failing{errBody})})
		require.ErrorIs(t, err, errBody)
		requireNothing(t, f, s, bucket)
	}
}

func requireNothing(t *testing.T, f Fixture, s objectstorev1.ObjectStore, bucket string) {
	t.Helper()
	list, err := s.ListObjects(t.Context(), &objectstorev1.ListObjectsInput{Bucket: bucket})
	require.NoError(t, err)
	require.Empty(t, list.Keys)
	require.Empty(t, f.Unfinished(t, bucket))
}

// waiting is a reader that calls reached and blocks until ctx ends, like an upload from the wire.
type waiting struct {
	ctx     context.Context
	reached func()
}

func (w waiting) Read([]byte) (int, error) {
	w.reached()
	<-w.ctx.Done()
	return 0, w.ctx.Err()
}

func cancelled(t *testing.T, f Fixture) {
	s, bucket := f.New(t)
	for _, size := range sizes() {
		ctx, cancel := context.WithCancel(t.Context())
		err := s.PutObject(ctx, &objectstorev1.PutObjectInput{Bucket: bucket, Key: "backups/b/b.tar.gz",
			Body: io.MultiReader(noise(size), waiting{ctx, cancel})})
		require.ErrorIs(t, err, context.Canceled)
		requireNothing(t, f, s, bucket)
	}
}

func brokenReplace(t *testing.T, f Fixture) {
	s, bucket := f.New(t)
	put(t, s, bucket, "key", "before")
	for _, size := range sizes() {
		require.Error(t, s.PutObject(t.Context(), &objectstorev1.PutObjectInput{Bucket: bucket, Key: "key",
			Body: io.MultiReader(noise(size), failing{errBody})}))
		require.Equal(t, "before", get(t, s, bucket, "key"))
	}
	require.Empty(t, f.Unfinished(t, bucket))
}

func missingBucket(t *testing.T, f Fixture) {
	s, _ := f.New(t)
	_, err := s.ListCommonPrefixes(t.Context(), &objectstorev1.ListCommonPrefixesInput{Bucket: "no-such-bucket",
		Delimiter: "/"})
	require.ErrorContains(t, err, `"no-such-bucket"`)
	require.ErrorContains(t, err, "create")
	err = s.PutObject(t.Context(), &objectstorev1.PutObjectInput{Bucket: "no-such-bucket", Key: "key",
		Body: strings.NewReader("x")})
	require.ErrorContains(t, err, `"no-such-bucket"`)
	require.ErrorContains(t, err, "create")
}
