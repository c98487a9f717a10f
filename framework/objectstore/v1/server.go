package v1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/framework/internal/glue"
	"github.com/cleat-dev/cleat/framework/internal/wire"
	objectlockv1 "github.com/cleat-dev/cleat/proto/cleat/objectlock/v1"
	objectstorev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// Kind describes the kind at this version, for hosts and for the kits that test plugins.
func Kind() hostapi.Kind[ObjectStore] {
	return hostapi.Kind[ObjectStore]{
		KindVersion: hostapi.KindVersion{
			Wire: "ObjectStore", Probe: objectstorev1.ObjectStore_ObjectExists_FullMethodName,
			Listed: 4, HasInit: true, HostKeys: []string{"bucket", "prefix", "caCert", "credentialsFile"},
		},
		Bind: bind,
	}
}

func bind(registrar grpc.ServiceRegistrar, handlers *glue.Handlers[ObjectStore]) {
	objectstorev1.RegisterObjectStoreServer(registrar, &server{handlers: handlers})
	objectlockv1.RegisterObjectLockServiceServer(registrar, &lockServer{handlers: handlers})
}

// server puts the stores of a process on the wire.
type server struct {
	objectstorev1.UnimplementedObjectStoreServer
	handlers *glue.Handlers[ObjectStore]
}

func (s *server) Init(ctx context.Context, req *objectstorev1.ObjectStoreInitRequest) (*shared.Empty, error) {
	if err := s.handlers.Init(ctx, req.GetPlugin(), req.GetConfig()); err != nil {
		return nil, err
	}
	return &shared.Empty{}, nil
}

func (s *server) PutObject(stream grpc.ClientStreamingServer[objectstorev1.PutObjectRequest, shared.Empty]) error {
	first, err := stream.Recv()
	if err == io.EOF {
		return errors.New("the upload ended before its first message; an empty object is one message with bucket, key and " +
			"an empty body")
	}
	if err != nil {
		return err
	}
	store, err := s.handlers.Use(stream.Context(), first.GetPlugin())
	if err != nil {
		return err
	}
	defer store.Release()
	until, err := glue.RetainUntil(stream.Context())
	if err != nil {
		return err
	}
	body := &uploadReader{rest: first.GetBody(), receive: stream.Recv}
	input := &PutObjectInput{Bucket: first.GetBucket(), Key: first.GetKey(), Body: body,
		IfAbsent: glue.IfAbsent(stream.Context()), RetainUntil: until}
	if err := store.Handler.PutObject(stream.Context(), input); err != nil {
		return err
	}
	if err := body.atEnd(); err != nil {
		return fmt.Errorf("%s/%s: %w", first.GetBucket(), first.GetKey(), err)
	}
	return stream.SendAndClose(&shared.Empty{})
}

func (s *server) ObjectExists(
	ctx context.Context, req *objectstorev1.ObjectExistsRequest,
) (*objectstorev1.ObjectExistsResponse, error) {
	store, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer store.Release()
	output, err := store.Handler.ObjectExists(ctx, &ObjectExistsInput{Bucket: req.GetBucket(), Key: req.GetKey()})
	if err != nil {
		return nil, err
	}
	if output == nil {
		output = &ObjectExistsOutput{}
	}
	return &objectstorev1.ObjectExistsResponse{Exists: output.Exists}, nil
}

func (s *server) GetObject(
	req *objectstorev1.GetObjectRequest, stream grpc.ServerStreamingServer[objectstorev1.Bytes],
) (err error) {
	store, err := s.handlers.Use(stream.Context(), req.GetPlugin())
	if err != nil {
		return err
	}
	defer store.Release()
	output, err := store.Handler.GetObject(stream.Context(), &GetObjectInput{Bucket: req.GetBucket(), Key: req.GetKey(),
		Range: glue.ReceivedRange(stream.Context())})
	if err != nil {
		return err
	}
	if output == nil || output.Body == nil {
		return fmt.Errorf("%s/%s: GetObject returned neither a reader nor an error", req.GetBucket(), req.GetKey())
	}
	object := output.Body
	defer func() {
		if closeErr := object.Close(); err == nil {
			err = closeErr
		}
	}()
	if output.Part != nil {
		if err := stream.SendHeader(output.Part.Header()); err != nil {
			return err
		}
	}
	for piece, err := range wire.Pieces(object) {
		if err != nil {
			return err
		}
		if err := stream.Send(&objectstorev1.Bytes{Data: piece}); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) ListCommonPrefixes(
	ctx context.Context, req *objectstorev1.ListCommonPrefixesRequest,
) (*objectstorev1.ListCommonPrefixesResponse, error) {
	store, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer store.Release()
	output, err := store.Handler.ListCommonPrefixes(ctx, &ListCommonPrefixesInput{Bucket: req.GetBucket(),
		Prefix: req.GetPrefix(), Delimiter: req.GetDelimiter()})
	if err != nil {
		return nil, err
	}
	if output == nil {
		output = &ListCommonPrefixesOutput{}
	}
	return &objectstorev1.ListCommonPrefixesResponse{Prefixes: output.Prefixes}, nil
}

func (s *server) ListObjects(
	ctx context.Context, req *objectstorev1.ListObjectsRequest,
) (*objectstorev1.ListObjectsResponse, error) {
	store, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer store.Release()
	output, err := store.Handler.ListObjects(ctx, &ListObjectsInput{Bucket: req.GetBucket(), Prefix: req.GetPrefix()})
	if err != nil {
		return nil, err
	}
	if output == nil {
		output = &ListObjectsOutput{}
	}
	return &objectstorev1.ListObjectsResponse{Keys: output.Keys}, nil
}

func (s *server) DeleteObject(ctx context.Context, req *objectstorev1.DeleteObjectRequest) (*shared.Empty, error) {
	store, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer store.Release()
	if err := store.Handler.DeleteObject(ctx, &DeleteObjectInput{Bucket: req.GetBucket(), Key: req.GetKey()}); err != nil {
		return nil, err
	}
	return &shared.Empty{}, nil
}

func (s *server) CreateSignedURL(
	ctx context.Context, req *objectstorev1.CreateSignedURLRequest,
) (*objectstorev1.CreateSignedURLResponse, error) {
	store, err := s.handlers.Use(ctx, req.GetPlugin())
	if err != nil {
		return nil, err
	}
	defer store.Release()
	output, err := store.Handler.CreateSignedURL(ctx, &CreateSignedURLInput{Bucket: req.GetBucket(), Key: req.GetKey(),
		TTL: time.Duration(req.GetTtl())})
	if err != nil {
		return nil, err
	}
	if output == nil {
		output = &CreateSignedURLOutput{}
	}
	return &objectstorev1.CreateSignedURLResponse{Url: output.URL}, nil
}
