package plugintest

import (
	"context"
	"io"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework/internal/wire"
	osv1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
	objectstorev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// ObjectStoreV1 returns the store that is registered as name. Its Init is called before its first call.
func (p *Plugin) ObjectStoreV1(name string, options ...Option) osv1.ObjectStore {
	p.t.Helper()
	config := p.location(chosen(options).config)
	client := objectstorev1.NewObjectStoreClient(&preparedConn{ClientConnInterface: p.conn,
		prepare: func(ctx context.Context) error {
			_, err := objectstorev1.NewObjectStoreClient(p.conn).Init(ctx, &objectstorev1.ObjectStoreInitRequest{Plugin: name,
				Config: config})
			return err
		}})
	return objectStoreV1{p.target(osv1.Kind().KindVersion, name), client}
}

type objectStoreV1 struct {
	target
	client objectstorev1.ObjectStoreClient
}

// PutObject sends the body. An error of the body cancels the call, as when a host abandons an upload.
func (s objectStoreV1) PutObject(ctx context.Context, input *osv1.PutObjectInput) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.client.PutObject(ctx)
	if err != nil {
		return s.wrap(err)
	}
	send := func(piece []byte) error {
		return stream.Send(&objectstorev1.PutObjectRequest{Plugin: s.name, Bucket: input.Bucket, Key: input.Key, Body: piece})
	}
	sent := false
	for piece, err := range wire.Pieces(input.Body) {
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

// ended returns the result of an upload.
func (s objectStoreV1) ended(stream grpc.ClientStreamingClient[objectstorev1.PutObjectRequest, shared.Empty]) error {
	_, err := stream.CloseAndRecv()
	return s.wrap(err)
}

func (s objectStoreV1) ObjectExists(
	ctx context.Context, input *osv1.ObjectExistsInput,
) (*osv1.ObjectExistsOutput, error) {
	answer, err := s.client.ObjectExists(ctx, &objectstorev1.ObjectExistsRequest{Plugin: s.name, Bucket: input.Bucket,
		Key: input.Key})
	if err != nil {
		return nil, s.wrap(err)
	}
	return &osv1.ObjectExistsOutput{Exists: answer.GetExists()}, nil
}

// GetObject opens an object. If it does not exist, the first Read returns the error.
func (s objectStoreV1) GetObject(ctx context.Context, input *osv1.GetObjectInput) (*osv1.GetObjectOutput, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := s.client.GetObject(ctx, &objectstorev1.GetObjectRequest{Plugin: s.name, Bucket: input.Bucket,
		Key: input.Key})
	if err != nil {
		cancel()
		return nil, s.wrap(err)
	}
	return &osv1.GetObjectOutput{Body: &download{target: s.target, stream: stream, cancel: cancel}}, nil
}

// download reads an object whose pieces arrive in messages.
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

func (s objectStoreV1) ListCommonPrefixes(
	ctx context.Context, input *osv1.ListCommonPrefixesInput,
) (*osv1.ListCommonPrefixesOutput, error) {
	answer, err := s.client.ListCommonPrefixes(ctx, &objectstorev1.ListCommonPrefixesRequest{
		Plugin: s.name, Bucket: input.Bucket, Prefix: input.Prefix, Delimiter: input.Delimiter,
	})
	if err != nil {
		return nil, s.wrap(err)
	}
	return &osv1.ListCommonPrefixesOutput{Prefixes: answer.GetPrefixes()}, nil
}

func (s objectStoreV1) ListObjects(ctx context.Context, input *osv1.ListObjectsInput) (*osv1.ListObjectsOutput, error) {
	answer, err := s.client.ListObjects(ctx, &objectstorev1.ListObjectsRequest{Plugin: s.name, Bucket: input.Bucket,
		Prefix: input.Prefix})
	if err != nil {
		return nil, s.wrap(err)
	}
	return &osv1.ListObjectsOutput{Keys: answer.GetKeys()}, nil
}

func (s objectStoreV1) DeleteObject(ctx context.Context, input *osv1.DeleteObjectInput) error {
	_, err := s.client.DeleteObject(ctx, &objectstorev1.DeleteObjectRequest{Plugin: s.name, Bucket: input.Bucket,
		Key: input.Key})
	return s.wrap(err)
}

func (s objectStoreV1) CreateSignedURL(
	ctx context.Context, input *osv1.CreateSignedURLInput,
) (*osv1.CreateSignedURLOutput, error) {
	answer, err := s.client.CreateSignedURL(ctx, &objectstorev1.CreateSignedURLRequest{
		Plugin: s.name, Bucket: input.Bucket, Key: input.Key, Ttl: int64(input.TTL),
	})
	if err != nil {
		return nil, s.wrap(err)
	}
	return &osv1.CreateSignedURLOutput{URL: answer.GetUrl()}, nil
}
