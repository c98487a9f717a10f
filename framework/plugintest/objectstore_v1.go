package plugintest

import (
	"context"
	"io"
	"time"

	"google.golang.org/grpc"

	osv1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
	objectstorev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// ObjectStoreV1 is the store that is registered as name. Call its Init first, as a host does.
func (p *Plugin) ObjectStoreV1(name string) osv1.ObjectStore {
	p.t.Helper()
	return objectStoreV1{p.target(osv1.Kind().Wire, name), objectstorev1.NewObjectStoreClient(p.conn)}
}

type objectStoreV1 struct {
	target
	client objectstorev1.ObjectStoreClient
}

func (s objectStoreV1) Init(ctx context.Context, config map[string]string) error {
	_, err := s.client.Init(ctx, &objectstorev1.ObjectStoreInitRequest{Plugin: s.name, Config: config})
	return s.wrap(err)
}

// PutObject sends body. An error of body cancels the call, as a host does that gives an upload up.
func (s objectStoreV1) PutObject(ctx context.Context, bucket, key string, body io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.client.PutObject(ctx)
	if err != nil {
		return s.wrap(err)
	}
	send := func(piece []byte) error {
		return stream.Send(&objectstorev1.PutObjectRequest{Plugin: s.name, Bucket: bucket, Key: key, Body: piece})
	}
	sent := false
	for piece, err := range osv1.Pieces(body) {
		if err != nil {
			return err
		}
		if err := send(piece); err != nil {
			return s.ended(stream)
		}
		sent = true
	}
	if !sent { // an empty object is one empty piece
		if err := send(nil); err != nil {
			return s.ended(stream)
		}
	}
	return s.ended(stream)
}

// ended is how an upload ended.
func (s objectStoreV1) ended(stream grpc.ClientStreamingClient[objectstorev1.PutObjectRequest, shared.Empty]) error {
	_, err := stream.CloseAndRecv()
	return s.wrap(err)
}

func (s objectStoreV1) ObjectExists(ctx context.Context, bucket, key string) (bool, error) {
	answer, err := s.client.ObjectExists(ctx, &objectstorev1.ObjectExistsRequest{Plugin: s.name, Bucket: bucket, Key: key})
	return answer.GetExists(), s.wrap(err)
}

// GetObject opens an object. That there is none is an error of the first Read.
func (s objectStoreV1) GetObject(ctx context.Context, bucket, key string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := s.client.GetObject(ctx, &objectstorev1.GetObjectRequest{Plugin: s.name, Bucket: bucket, Key: key})
	if err != nil {
		cancel()
		return nil, s.wrap(err)
	}
	return &download{target: s.target, stream: stream, cancel: cancel}, nil
}

// download reads an object that arrives in messages.
type download struct {
	target
	stream grpc.ServerStreamingClient[objectstorev1.Bytes]
	cancel context.CancelFunc
	rest   []byte
}

// Read implements io.Reader.
func (d *download) Read(p []byte) (int, error) {
	for len(d.rest) == 0 {
		message, err := d.stream.Recv()
		if err == io.EOF {
			return 0, io.EOF
		}
		if err != nil {
			return 0, d.wrap(err)
		}
		d.rest = message.GetData()
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (d *download) Close() error {
	d.cancel()
	return nil
}

func (s objectStoreV1) ListCommonPrefixes(ctx context.Context, bucket, prefix, delimiter string) ([]string, error) {
	answer, err := s.client.ListCommonPrefixes(ctx, &objectstorev1.ListCommonPrefixesRequest{
		Plugin: s.name, Bucket: bucket, Prefix: prefix, Delimiter: delimiter,
	})
	return answer.GetPrefixes(), s.wrap(err)
}

func (s objectStoreV1) ListObjects(ctx context.Context, bucket, prefix string) ([]string, error) {
	answer, err := s.client.ListObjects(ctx, &objectstorev1.ListObjectsRequest{Plugin: s.name, Bucket: bucket, Prefix: prefix})
	return answer.GetKeys(), s.wrap(err)
}

func (s objectStoreV1) DeleteObject(ctx context.Context, bucket, key string) error {
	_, err := s.client.DeleteObject(ctx, &objectstorev1.DeleteObjectRequest{Plugin: s.name, Bucket: bucket, Key: key})
	return s.wrap(err)
}

func (s objectStoreV1) CreateSignedURL(ctx context.Context, bucket, key string, ttl time.Duration) (string, error) {
	answer, err := s.client.CreateSignedURL(ctx, &objectstorev1.CreateSignedURLRequest{
		Plugin: s.name, Bucket: bucket, Key: key, Ttl: int64(ttl),
	})
	return answer.GetUrl(), s.wrap(err)
}
