package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	"github.com/cleat-dev/cleat/framework/conformance/internal/wire"
	objectstorev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
)

// pieceSize is the size in bytes of the pieces in which objects are sent (Velero's wire).
const pieceSize = 16384

// rootFolder is the prefix of all objects of a test. It is below a folder that hosts know at the top of a bucket: a
// storage whose folders outlive their objects would otherwise keep one that makes the bucket invalid as a backup
// location.
const rootFolder = "plugins/conformance/"

// store is an ObjectStore whose Init was called, with its bucket.
type store struct {
	*plugin
	client objectstorev1.ObjectStoreClient
	bucket string
	folder string // prefix of the objects of one rule
}

// store returns the ObjectStore after its Init. It skips a rule without a config of the caller.
func (s *plugin) store(ctx context.Context, folder string) (*store, error) {
	if err := s.needsConfig(); err != nil {
		return nil, err
	}
	conn, err := s.needsInit(ctx)
	if err != nil {
		return nil, err
	}
	return &store{plugin: s, client: objectstorev1.NewObjectStoreClient(conn), bucket: s.Config()["bucket"],
		folder: folder}, nil
}

func (s *store) put(ctx context.Context, key string, body io.Reader) error {
	return s.Stream(ctx, func(ctx context.Context, moved func()) error {
		stream, err := s.client.PutObject(ctx)
		if err != nil {
			return err
		}
		sent := false
		for piece := make([]byte, pieceSize); ; {
			n, readErr := io.ReadFull(body, piece)
			if n > 0 || !sent {
				sent = true
				if stream.Send(&objectstorev1.PutObjectRequest{Plugin: s.Name, Bucket: s.bucket, Key: key,
					Body: bytes.Clone(piece[:n])}) != nil {
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
	err = s.Stream(ctx, func(ctx context.Context, moved func()) error {
		stream, err := s.client.GetObject(ctx, &objectstorev1.GetObjectRequest{Plugin: s.Name, Bucket: s.bucket, Key: key})
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
	ctx, cancel := s.Call(ctx)
	defer cancel()
	got, err := s.client.ObjectExists(ctx,
		wire.WithUnknown(&objectstorev1.ObjectExistsRequest{Plugin: s.Name, Bucket: s.bucket, Key: key}))
	return got.GetExists(), err
}

func (s *store) keys(ctx context.Context, prefix string) ([]string, error) {
	ctx, cancel := s.Call(ctx)
	defer cancel()
	got, err := s.client.ListObjects(ctx, &objectstorev1.ListObjectsRequest{Plugin: s.Name, Bucket: s.bucket,
		Prefix: prefix})
	return got.GetKeys(), err
}

func (s *store) prefixes(ctx context.Context, prefix string) ([]string, error) {
	ctx, cancel := s.Call(ctx)
	defer cancel()
	got, err := s.client.ListCommonPrefixes(ctx, &objectstorev1.ListCommonPrefixesRequest{
		Plugin: s.Name, Bucket: s.bucket, Prefix: prefix, Delimiter: "/",
	})
	return got.GetPrefixes(), err
}

func (s *store) remove(ctx context.Context, key string) error {
	ctx, cancel := s.Call(ctx)
	defer cancel()
	_, err := s.client.DeleteObject(ctx, &objectstorev1.DeleteObjectRequest{Plugin: s.Name, Bucket: s.bucket, Key: key})
	return err
}

// cleanTime limits the removal of objects after ctx has ended, so that an interrupted test of a slow store prints its
// report soon.
const cleanTime = 15 * time.Second

// clean removes the objects that a check has left, even after ctx has ended.
func (s *store) clean(ctx context.Context) {
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
		defer cancel()
	}
	s, err := s.store(ctx, s.folder) // the process may have been restarted
	if err != nil {
		return
	}
	keys, err := s.keys(ctx, s.folder)
	if err != nil {
		return
	}
	var removing errgroup.Group
	removing.SetLimit(suite.SlowCallers)
	for _, key := range keys {
		removing.Go(func() error { return s.remove(ctx, key) })
	}
	_ = removing.Wait() // other rules check DeleteObject
}

// comesBack puts an object and checks that it reads the same.
func (s *store) comesBack(ctx context.Context, key string, content []byte) error {
	if err := s.put(ctx, key, bytes.NewReader(content)); err != nil {
		return fmt.Errorf("call of PutObject for %d bytes at %q: %w", len(content), key, err)
	}
	return s.has(ctx, key, content)
}

func (s *store) has(ctx context.Context, key string, content []byte) error {
	got, err := s.content(ctx, key)
	if err != nil {
		return fmt.Errorf("call of GetObject for %q: %w", key, err)
	}
	if !bytes.Equal(got, content) {
		return fmt.Errorf("call of GetObject for %q: %d bytes %s, want %d bytes %s", key, len(got), sample.Brief(got),
			len(content), sample.Brief(content))
	}
	return nil
}

// putAll puts small objects at the given keys.
func (s *store) putAll(ctx context.Context, keys []string) error {
	var group errgroup.Group
	group.SetLimit(suite.SlowCallers)
	for _, key := range keys {
		group.Go(func() error {
			if err := s.put(ctx, key, strings.NewReader("content of "+key)); err != nil {
				return fmt.Errorf("call of PutObject for %q: %w", key, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// StoreWork writes, reads and deletes an object of some bytes.
func StoreWork(ctx context.Context, s *suite.Subject, size int) error {
	ready, err := (&plugin{s}).store(ctx, rootFolder+"work/")
	if err != nil {
		return err
	}
	if err := ready.comesBack(ctx, ready.folder+"object", sample.Padding(size)); err != nil {
		return err
	}
	return ready.remove(ctx, ready.folder+"object")
}
