package storage

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	objectstorev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
)

// broken is a reader that cancels the upload after a pause and fails.
type broken struct{ cancel context.CancelFunc }

func (b broken) Read([]byte) (int, error) {
	time.Sleep(50 * time.Millisecond) // so that the plugin can begin
	b.cancel()
	return 0, errors.New("the body broke")
}

func checkStoreBrokenUpload(ctx context.Context, s *store) error {
	before := []byte("what was there before")
	if err := s.comesBack(ctx, s.folder+"replaced", before); err != nil {
		return err
	}
	for _, size := range []int64{0, pieceSize, 3 * pieceSize, s.Large} {
		for _, key := range []string{s.folder + "broken", s.folder + "replaced"} {
			upload, cancel := context.WithCancel(ctx)
			err := s.put(upload, key, io.MultiReader(noise(size), broken{cancel}))
			cancel()
			if err == nil {
				return errors.New("an upload that was cancelled ended well")
			}
		}
	}
	unchanged := func() error {
		keys, err := s.keys(ctx, s.folder)
		if err != nil {
			return err
		}
		if err := same("after uploads that were cancelled", keys, []string{s.folder + "replaced"}); err != nil {
			return err
		}
		return s.has(ctx, s.folder+"replaced", before)
	}
	// An object that exists for a moment does no harm.
	for deadline := time.Now().Add(s.Patience); ; {
		err := suite.Settled(ctx, unchanged)
		if err == nil || suite.Hung(err) || time.Now().After(deadline) {
			return err
		}
		if err := suite.Sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

func checkStoreEarlyClose(ctx context.Context, s *store) error {
	if err := s.put(ctx, s.folder+"early", noise(s.Large)); err != nil {
		return suite.Skip("PutObject of a large object does not work: %v", err)
	}
	err := s.Each(ctx, 20, func(ctx context.Context, _ int) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := s.client.GetObject(ctx, &objectstorev1.GetObjectRequest{Plugin: s.Name, Bucket: s.bucket,
			Key: s.folder + "early"})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	})
	if err != nil {
		return err
	}
	return suite.Settled(ctx, func() error {
		return s.comesBack(ctx, s.folder+"after", []byte("after 20 downloads that were given up"))
	})
}
