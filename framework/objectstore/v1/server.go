package v1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	objectstorev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

func bind(registrar grpc.ServiceRegistrar, handlers *framework.Handlers[ObjectStore]) {
	objectstorev1.RegisterObjectStoreServer(registrar, &server{handlers: handlers})
}

// server puts the stores of a process on the wire.
type server struct {
	objectstorev1.UnimplementedObjectStoreServer
	handlers *framework.Handlers[ObjectStore]
}

func (s *server) Init(ctx context.Context, req *objectstorev1.ObjectStoreInitRequest) (*shared.Empty, error) {
	store, err := s.handlers.Get(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	if err := store.Init(ctx, req.GetConfig()); err != nil {
		return nil, err
	}
	return &shared.Empty{}, nil
}

func (s *server) PutObject(stream grpc.ClientStreamingServer[objectstorev1.PutObjectRequest, shared.Empty]) error {
	first, err := stream.Recv()
	if err == io.EOF {
		return errors.New("the upload ended before its first message; an empty object is one message with bucket, key and an empty body")
	}
	if err != nil {
		return err
	}
	store, err := s.handlers.Get(first.GetPlugin())
	if err != nil {
		return err
	}
	body := &uploadReader{rest: first.GetBody(), receive: stream.Recv}
	if err := store.PutObject(stream.Context(), first.GetBucket(), first.GetKey(), body); err != nil {
		return err
	}
	if err := body.atEnd(); err != nil {
		return fmt.Errorf("%s/%s: %w", first.GetBucket(), first.GetKey(), err)
	}
	return stream.SendAndClose(&shared.Empty{})
}

func (s *server) ObjectExists(ctx context.Context, req *objectstorev1.ObjectExistsRequest) (*objectstorev1.ObjectExistsResponse, error) {
	store, err := s.handlers.Get(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	exists, err := store.ObjectExists(ctx, req.GetBucket(), req.GetKey())
	if err != nil {
		return nil, err
	}
	return &objectstorev1.ObjectExistsResponse{Exists: exists}, nil
}

func (s *server) GetObject(req *objectstorev1.GetObjectRequest, stream grpc.ServerStreamingServer[objectstorev1.Bytes]) (err error) {
	store, err := s.handlers.Get(req.GetPlugin())
	if err != nil {
		return err
	}
	object, err := store.GetObject(stream.Context(), req.GetBucket(), req.GetKey())
	if err != nil {
		return err
	}
	if object == nil {
		return fmt.Errorf("%s/%s: GetObject returned neither a reader nor an error", req.GetBucket(), req.GetKey())
	}
	defer func() {
		if closeErr := object.Close(); err == nil {
			err = closeErr
		}
	}()
	for piece, err := range Pieces(object) {
		if err != nil {
			return err
		}
		if err := stream.Send(&objectstorev1.Bytes{Data: piece}); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) ListCommonPrefixes(ctx context.Context, req *objectstorev1.ListCommonPrefixesRequest) (*objectstorev1.ListCommonPrefixesResponse, error) {
	store, err := s.handlers.Get(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	prefixes, err := store.ListCommonPrefixes(ctx, req.GetBucket(), req.GetPrefix(), req.GetDelimiter())
	if err != nil {
		return nil, err
	}
	return &objectstorev1.ListCommonPrefixesResponse{Prefixes: prefixes}, nil
}

func (s *server) ListObjects(ctx context.Context, req *objectstorev1.ListObjectsRequest) (*objectstorev1.ListObjectsResponse, error) {
	store, err := s.handlers.Get(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	keys, err := store.ListObjects(ctx, req.GetBucket(), req.GetPrefix())
	if err != nil {
		return nil, err
	}
	return &objectstorev1.ListObjectsResponse{Keys: keys}, nil
}

func (s *server) DeleteObject(ctx context.Context, req *objectstorev1.DeleteObjectRequest) (*shared.Empty, error) {
	store, err := s.handlers.Get(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	if err := store.DeleteObject(ctx, req.GetBucket(), req.GetKey()); err != nil {
		return nil, err
	}
	return &shared.Empty{}, nil
}

func (s *server) CreateSignedURL(ctx context.Context, req *objectstorev1.CreateSignedURLRequest) (*objectstorev1.CreateSignedURLResponse, error) {
	store, err := s.handlers.Get(req.GetPlugin())
	if err != nil {
		return nil, err
	}
	url, err := store.CreateSignedURL(ctx, req.GetBucket(), req.GetKey(), time.Duration(req.GetTtl()))
	if err != nil {
		return nil, err
	}
	return &objectstorev1.CreateSignedURLResponse{Url: url}, nil
}
