package conformance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
	objectstorev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
)

// pieceSize is the size in bytes of the pieces in which objects are sent (Velero's wire).
const pieceSize = 16384

// folder is the prefix of all objects of a test.
const folder = "conformance/"

// store is an ObjectStore whose Init was called, with its bucket.
type store struct {
	*subject
	client objectstorev1.ObjectStoreClient
	bucket string
}

// store returns the ObjectStore after its Init. It is skipped without a config of the caller.
func (s *subject) store(ctx context.Context) (*store, error) {
	if err := s.needsConfig(); err != nil {
		return nil, err
	}
	conn, err := s.needsInit(ctx)
	if err != nil {
		return nil, err
	}
	return &store{subject: s, client: objectstorev1.NewObjectStoreClient(conn), bucket: s.configOf(s.name)["bucket"]}, nil
}

func (s *store) put(ctx context.Context, key string, body io.Reader) error {
	return s.stream(ctx, func(ctx context.Context, moved func()) error {
		stream, err := s.client.PutObject(ctx)
		if err != nil {
			return err
		}
		sent := false
		for piece := make([]byte, pieceSize); ; {
			n, readErr := io.ReadFull(body, piece)
			if n > 0 || !sent {
				sent = true
				if stream.Send(&objectstorev1.PutObjectRequest{Plugin: s.name, Bucket: s.bucket, Key: key, Body: bytes.Clone(piece[:n])}) != nil {
					break // CloseAndRecv returns the error
				}
				moved()
			}
			if readErr != nil {
				if !errors.Is(readErr, io.EOF) && !errors.Is(readErr, io.ErrUnexpectedEOF) {
					return readErr // which cancels the upload
				}
				break
			}
		}
		_, err = stream.CloseAndRecv()
		return err
	})
}

// get copies an object to w and returns the size of its largest piece.
func (s *store) get(ctx context.Context, key string, w io.Writer) (largest int, err error) {
	err = s.stream(ctx, func(ctx context.Context, moved func()) error {
		stream, err := s.client.GetObject(ctx, &objectstorev1.GetObjectRequest{Plugin: s.name, Bucket: s.bucket, Key: key})
		if err != nil {
			return err
		}
		for {
			piece, err := stream.Recv()
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
			moved()
			largest = max(largest, len(piece.GetData()))
			if _, err := w.Write(piece.GetData()); err != nil {
				return err
			}
		}
	})
	return largest, err
}

func (s *store) content(ctx context.Context, key string) ([]byte, error) {
	var content bytes.Buffer
	_, err := s.get(ctx, key, &content)
	return content.Bytes(), err
}

func (s *store) exists(ctx context.Context, key string) (bool, error) {
	ctx, cancel := s.call(ctx)
	defer cancel()
	got, err := s.client.ObjectExists(ctx, wire.WithUnknown(&objectstorev1.ObjectExistsRequest{Plugin: s.name, Bucket: s.bucket, Key: key}))
	return got.GetExists(), err
}

func (s *store) keys(ctx context.Context, prefix string) ([]string, error) {
	ctx, cancel := s.call(ctx)
	defer cancel()
	got, err := s.client.ListObjects(ctx, &objectstorev1.ListObjectsRequest{Plugin: s.name, Bucket: s.bucket, Prefix: prefix})
	return got.GetKeys(), err
}

func (s *store) prefixes(ctx context.Context, prefix string) ([]string, error) {
	ctx, cancel := s.call(ctx)
	defer cancel()
	got, err := s.client.ListCommonPrefixes(ctx, &objectstorev1.ListCommonPrefixesRequest{
		Plugin: s.name, Bucket: s.bucket, Prefix: prefix, Delimiter: "/",
	})
	return got.GetPrefixes(), err
}

func (s *store) remove(ctx context.Context, key string) error {
	ctx, cancel := s.call(ctx)
	defer cancel()
	_, err := s.client.DeleteObject(ctx, &objectstorev1.DeleteObjectRequest{Plugin: s.name, Bucket: s.bucket, Key: key})
	return err
}

// clean removes the objects that a check has left, even after ctx has ended.
func (s *store) clean(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	s, err := s.store(ctx) // the process may have been restarted
	if err != nil {
		return
	}
	keys, err := s.keys(ctx, folder)
	if err != nil {
		return
	}
	var removing errgroup.Group
	removing.SetLimit(callers)
	for _, key := range keys {
		removing.Go(func() error { return s.remove(ctx, key) })
	}
	_ = removing.Wait() // other rules check DeleteObject
}

// noise returns n bytes that do not compress, the same at each call.
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
