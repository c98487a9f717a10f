package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	objectlockv1 "github.com/cleat-dev/cleat/proto/cleat/objectlock/v1"
	objectstorev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
	"github.com/cleat-dev/cleat/proto/velero/shared"
)

// store is an ObjectStore whose buckets are directories, with a file for each object.
type store struct {
	init     func(config map[string]string, newer bool) error
	put      func(ctx context.Context, bucket, key string, body io.Reader) error
	get      func(bucket, key string) ([]byte, error)
	exists   func(bucket, key string) (bool, error)
	remove   func(bucket, key string) error
	list     func(bucket, prefix string) ([]string, error)
	prefixes func(bucket, prefix string) ([]string, error)
	url      func(bucket, key string) (string, error)
	locks    func() *objectlockv1.LocksResponse
	hold     func(key string, on bool)
	piece    int
	sendErr  func()

	mu    sync.Mutex
	root  string // empty before Init
	held  map[string]bool
	early error // of a call before Init
}

func (s *store) dir(bucket string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root == "" {
		return "", s.early
	}
	dir := filepath.Join(s.root, bucket)
	if _, err := os.Stat(dir); err != nil {
		return "", err
	}
	return dir, nil
}

func (s *store) path(bucket, key string) (string, error) {
	dir, err := s.dir(bucket)
	return filepath.Join(dir, url.PathEscape(key)), err
}

// goodStore returns a store that keeps all rules.
func goodStore() *store {
	s := &store{piece: 16384, sendErr: func() {}, early: errors.New("call Init first"), held: map[string]bool{}}
	s.locks = func() *objectlockv1.LocksResponse {
		return &objectlockv1.LocksResponse{Lock: objectlockv1.Answer_ANSWER_YES}
	}
	s.hold = func(key string, on bool) { s.held[key] = on }
	s.init = func(config map[string]string, _ bool) error {
		for key := range config {
			if !slices.Contains([]string{"path", "bucket", "prefix"}, key) {
				return fmt.Errorf("unknown key %q", key)
			}
		}
		if config["path"] == "" || config["bucket"] == "" {
			return errors.New("no path or no bucket")
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.root = config["path"]
		return nil
	}
	s.put = func(_ context.Context, bucket, key string, body io.Reader) error {
		path, err := s.path(bucket, key)
		if err != nil {
			return err
		}
		content, err := io.ReadAll(body)
		if err != nil {
			return err
		}
		temporary, err := os.CreateTemp(s.root, "upload")
		if err != nil {
			return err
		}
		_, err = temporary.Write(content)
		return errors.Join(err, temporary.Close(), os.Rename(temporary.Name(), path))
	}
	s.get = func(bucket, key string) ([]byte, error) {
		path, err := s.path(bucket, key)
		if err != nil {
			return nil, err
		}
		return os.ReadFile(path)
	}
	s.exists = func(bucket, key string) (bool, error) {
		path, err := s.path(bucket, key)
		if err != nil {
			return false, err
		}
		_, err = os.Stat(path)
		return err == nil, nil
	}
	s.remove = func(bucket, key string) error {
		path, err := s.path(bucket, key)
		if err != nil {
			return err
		}
		if s.isHeld(key) {
			return heldError(key)
		}
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	s.list = func(bucket, prefix string) ([]string, error) {
		dir, err := s.dir(bucket)
		if err != nil {
			return nil, err
		}
		entries, err := os.ReadDir(dir)
		var keys []string
		for _, entry := range entries {
			if key, err := url.PathUnescape(entry.Name()); err == nil && strings.HasPrefix(key, prefix) {
				keys = append(keys, key)
			}
		}
		return keys, err
	}
	list := s.list
	s.prefixes = func(bucket, prefix string) ([]string, error) { return foldersBelow(prefix)(list(bucket, prefix)) }
	s.url = func(bucket, key string) (string, error) {
		path, err := s.path(bucket, key)
		return (&url.URL{Scheme: "file", Path: path}).String(), err
	}
	return s
}

func foldersBelow(prefix string) func(keys []string, err error) ([]string, error) {
	return func(keys []string, err error) ([]string, error) {
		folders := map[string]bool{}
		for _, key := range keys {
			if folder, _, found := strings.Cut(strings.TrimPrefix(key, prefix), "/"); found {
				folders[prefix+folder+"/"] = true
			}
		}
		return slices.Sorted(maps.Keys(folders)), err
	}
}

func (s *store) isHeld(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[key]
}

func heldError(key string) error {
	failed, err := status.New(codes.FailedPrecondition, key+" is held").WithDetails(&objectlockv1.Locked{Held: true})
	return errors.Join(err, failed.Err())
}

type lockServer struct {
	objectlockv1.UnimplementedObjectLockServiceServer
	store *store
}

func (s lockServer) Locks(context.Context, *objectlockv1.LocksRequest) (*objectlockv1.LocksResponse, error) {
	return s.store.locks(), nil
}

func (s lockServer) SetHold(
	_ context.Context, req *objectlockv1.SetHoldRequest,
) (*objectlockv1.SetHoldResponse, error) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.hold(req.GetKey(), req.GetOn())
	return &objectlockv1.SetHoldResponse{}, nil
}

func (s lockServer) Retention(
	_ context.Context, req *objectlockv1.RetentionRequest,
) (*objectlockv1.RetentionResponse, error) {
	return &objectlockv1.RetentionResponse{Held: s.store.isHeld(req.GetKey())}, nil
}

type storeServer struct {
	objectstorev1.UnimplementedObjectStoreServer
	store *store
}

func (s storeServer) Init(_ context.Context, req *objectstorev1.ObjectStoreInitRequest) (*shared.Empty, error) {
	return &shared.Empty{}, s.store.init(req.GetConfig(), odd(req))
}

func (s storeServer) PutObject(stream grpc.ClientStreamingServer[objectstorev1.PutObjectRequest, shared.Empty]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	reader, writer := io.Pipe()
	go func() {
		_, err := writer.Write(first.GetBody())
		for err == nil {
			var next *objectstorev1.PutObjectRequest
			if next, err = stream.Recv(); err == nil {
				_, err = writer.Write(next.GetBody())
			}
		}
		_ = writer.CloseWithError(err) // io.EOF at the end
	}()
	defer func() { _ = reader.Close() }()
	if err := s.store.put(stream.Context(), first.GetBucket(), first.GetKey(), reader); err != nil {
		return err
	}
	return stream.SendAndClose(&shared.Empty{})
}

func (s storeServer) GetObject(
	req *objectstorev1.GetObjectRequest, stream grpc.ServerStreamingServer[objectstorev1.Bytes],
) error {
	content, err := s.store.get(req.GetBucket(), req.GetKey())
	if err != nil {
		return err
	}
	for piece := range slices.Chunk(content, s.store.piece) {
		if err := stream.Send(&objectstorev1.Bytes{Data: bytes.Clone(piece)}); err != nil {
			s.store.sendErr()
			return err
		}
	}
	return nil
}

func (s storeServer) ObjectExists(
	_ context.Context, req *objectstorev1.ObjectExistsRequest,
) (*objectstorev1.ObjectExistsResponse, error) {
	exists, err := s.store.exists(req.GetBucket(), req.GetKey())
	return &objectstorev1.ObjectExistsResponse{Exists: exists}, err
}

func (s storeServer) DeleteObject(_ context.Context, req *objectstorev1.DeleteObjectRequest) (*shared.Empty, error) {
	return &shared.Empty{}, s.store.remove(req.GetBucket(), req.GetKey())
}

func (s storeServer) ListObjects(
	_ context.Context, req *objectstorev1.ListObjectsRequest,
) (*objectstorev1.ListObjectsResponse, error) {
	keys, err := s.store.list(req.GetBucket(), req.GetPrefix())
	return &objectstorev1.ListObjectsResponse{Keys: keys}, err
}

func (s storeServer) ListCommonPrefixes(
	_ context.Context, req *objectstorev1.ListCommonPrefixesRequest,
) (*objectstorev1.ListCommonPrefixesResponse, error) {
	prefixes, err := s.store.prefixes(req.GetBucket(), req.GetPrefix())
	return &objectstorev1.ListCommonPrefixesResponse{Prefixes: prefixes}, err
}

func (s storeServer) CreateSignedURL(
	_ context.Context, req *objectstorev1.CreateSignedURLRequest,
) (*objectstorev1.CreateSignedURLResponse, error) {
	signed, err := s.store.url(req.GetBucket(), req.GetKey())
	return &objectstorev1.CreateSignedURLResponse{Url: signed}, err
}
