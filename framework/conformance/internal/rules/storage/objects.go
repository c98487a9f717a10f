package storage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/cleat-dev/cleat/framework/conformance/internal/sample"
	"github.com/cleat-dev/cleat/framework/conformance/internal/suite"
	objectstorev1 "github.com/cleat-dev/cleat/proto/velero/objectstore/v1"
)

func checkStoreBeforeInit(ctx context.Context, s *plugin) error {
	conn, err := s.fresh(ctx)
	if err != nil {
		return err
	}
	// Calls that write are not made: the store may work without Init.
	early := &store{plugin: s, client: objectstorev1.NewObjectStoreClient(conn), bucket: "conformance", folder: rootFolder}
	_, listErr := early.keys(ctx, early.folder)
	_, getErr := early.content(ctx, early.folder+"early")
	_, existsErr := early.exists(ctx, early.folder+"early")
	for call, err := range map[string]error{"ListObjects": listErr, "GetObject": getErr, "ObjectExists": existsErr} {
		if suite.Hung(err) {
			return fmt.Errorf("%s before Init: %w", call, err)
		}
	}
	return nil
}

func checkStoreInitAgain(ctx context.Context, s *store) error {
	conn, err := s.Conn(ctx)
	if err != nil {
		return err
	}
	defer s.Host.Stop() // the next rules get a process with one Init
	if err := s.callInit(ctx, conn, s.Config()); suite.Hung(err) || suite.Panicked(err) {
		return err
	}
	return s.comesBack(ctx, s.folder+"again", []byte("after a second Init"))
}

func checkStoreRoundTrip(ctx context.Context, s *store) error {
	sizes := []int{1, 1000, pieceSize, pieceSize + 1, suite.MiB}
	return s.Each(ctx, len(sizes), func(ctx context.Context, i int) error {
		return s.comesBack(ctx, fmt.Sprintf("%sdeep/er/object-%d", s.folder, i), bytes.Repeat([]byte("x"), sizes[i]))
	})
}

func checkStoreEmpty(ctx context.Context, s *store) error {
	return s.comesBack(ctx, s.folder+"empty", nil)
}

func checkStoreLarge(ctx context.Context, s *store) error {
	want, got := sha256.New(), sha256.New()
	if err := s.put(ctx, s.folder+"large", io.TeeReader(noise(s.Large), want)); err != nil {
		return err
	}
	if _, err := s.get(ctx, s.folder+"large", got); err != nil {
		return err
	}
	if !bytes.Equal(want.Sum(nil), got.Sum(nil)) {
		return fmt.Errorf("an object of %d bytes does not come back as it was put", s.Large)
	}
	return nil
}

func checkStorePieces(ctx context.Context, s *store) error {
	if err := s.put(ctx, s.folder+"pieces", noise(suite.MiB)); err != nil {
		return suite.Skip("PutObject does not work")
	}
	largest, err := s.get(ctx, s.folder+"pieces", io.Discard)
	if err != nil {
		return suite.Skip("GetObject does not work")
	}
	if largest > pieceSize {
		return fmt.Errorf("a piece has %d bytes", largest)
	}
	return nil
}

func checkStoreReplace(ctx context.Context, s *store) error {
	if err := s.put(ctx, s.folder+"key", strings.NewReader("a longer text")); err != nil {
		return err
	}
	return s.comesBack(ctx, s.folder+"key", []byte("short"))
}

func checkStoreExists(ctx context.Context, s *store) error {
	key := s.folder + "exists/object"
	expect := func(key string, want bool, when string) error {
		got, err := s.exists(ctx, key)
		if err != nil {
			return fmt.Errorf("%s %s: %w", key, when, err)
		}
		if got != want {
			return fmt.Errorf("%s %s: exists is %t", key, when, got)
		}
		return nil
	}
	if err := expect(key, false, "before its PutObject"); err != nil {
		return err
	}
	if err := s.put(ctx, key, strings.NewReader("x")); err != nil {
		return err
	}
	if err := expect(key, true, "after its PutObject"); err != nil {
		return err
	}
	if err := s.remove(ctx, key); err != nil {
		return err
	}
	return expect(key, false, "after its DeleteObject")
}

func checkStoreGetMissing(ctx context.Context, s *store) error {
	content, err := s.content(ctx, s.folder+"none/none.tar.gz")
	if err == nil {
		return fmt.Errorf("it has the content %s", sample.Brief(content))
	}
	return suite.NotHung(err)
}

func checkStoreDeleteMissing(ctx context.Context, s *store) error {
	return s.remove(ctx, s.folder+"none/none.tar.gz")
}

func checkStoreConcurrent(ctx context.Context, s *store) error {
	var group errgroup.Group
	for i := range suite.Callers {
		group.Go(func() error {
			content := bytes.Repeat([]byte(suite.Caller(i)), 20_000)
			return s.comesBack(ctx, s.folder+"at/once/"+suite.Caller(i), content)
		})
	}
	return group.Wait()
}

func checkStoreMissingBucket(ctx context.Context, s *store) error {
	other := *s
	other.bucket = "conformance-no-such-bucket"
	keys, err := other.keys(ctx, "")
	if err == nil {
		return fmt.Errorf("ListObjects in the bucket %s answers %q", other.bucket, keys)
	}
	return suite.NotHung(err)
}

func checkStoreRestart(ctx context.Context, s *store) error {
	content := []byte("what outlives the process")
	if err := s.comesBack(ctx, s.folder+"restart", content); err != nil {
		return err
	}
	s.Host.Stop()
	next, err := s.store(ctx, s.folder)
	if err != nil {
		return err
	}
	s.client = next.client
	return s.has(ctx, s.folder+"restart", content)
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
