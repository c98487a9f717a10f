package run

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// patientStore is an object store whose failed calls are repeated. It signs no URLs for runs.
type patientStore struct {
	objectstore.Store
	outage *outage
}

// PutObject implements objectstore.Store. It reads body again for each attempt, so it repeats nothing if body is not
// an io.Seeker.
func (s patientStore) PutObject(ctx context.Context, bucket, key string, body io.Reader) error {
	start, repeatable := body.(io.Seeker)
	if !repeatable {
		return s.Store.PutObject(ctx, bucket, key, body)
	}
	return s.outage.call(ctx, func() (far int64, err error) {
		if _, err := start.Seek(0, io.SeekStart); err != nil {
			return 0, finalError{err}
		}
		counted := &countedBody{body: body}
		err = s.Store.PutObject(ctx, bucket, key, counted)
		if err != nil && counted.failed {
			err = finalError{err} // the object store has not failed
		}
		return counted.read, err
	})
}

// countedBody counts the bytes that an object store has read.
type countedBody struct {
	body   io.Reader
	read   int64
	failed bool
}

// Read implements io.Reader.
func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	b.read += int64(n)
	b.failed = b.failed || err != nil && err != io.EOF //nolint:errorlint // unchanged, as an io.Reader must
	return n, err
}

// ObjectExists implements objectstore.Store.
func (s patientStore) ObjectExists(ctx context.Context, bucket, key string) (bool, error) {
	return patiently(ctx, s.outage, func() (bool, error) { return s.Store.ObjectExists(ctx, bucket, key) })
}

// ListCommonPrefixes implements objectstore.Store.
func (s patientStore) ListCommonPrefixes(ctx context.Context, bucket, prefix, delimiter string) ([]string, error) {
	return patiently(ctx, s.outage,
		func() ([]string, error) { return s.Store.ListCommonPrefixes(ctx, bucket, prefix, delimiter) })
}

// ListObjects implements objectstore.Store.
func (s patientStore) ListObjects(ctx context.Context, bucket, prefix string) ([]string, error) {
	return patiently(ctx, s.outage, func() ([]string, error) { return s.Store.ListObjects(ctx, bucket, prefix) })
}

// DeleteObject implements objectstore.Store. An attempt that failed may have deleted the object.
func (s patientStore) DeleteObject(ctx context.Context, bucket, key string) error {
	failed := false
	return s.outage.call(ctx, func() (int64, error) {
		err := s.Store.DeleteObject(ctx, bucket, key)
		if err != nil && failed {
			if exists, unknown := s.Store.ObjectExists(ctx, bucket, key); unknown == nil && !exists {
				return 0, nil
			}
		}
		failed = true
		return 0, err
	})
}

// Locks implements objectstore.Store.
func (s patientStore) Locks(ctx context.Context, bucket string) (*objectstore.Locks, error) {
	return patiently(ctx, s.outage, func() (*objectstore.Locks, error) { return s.Store.Locks(ctx, bucket) })
}

// SetHold implements objectstore.Store.
func (s patientStore) SetHold(ctx context.Context, bucket, key string, on bool) error {
	return s.outage.call(ctx, func() (int64, error) { return 0, s.Store.SetHold(ctx, bucket, key, on) })
}

// Retention implements objectstore.Store.
func (s patientStore) Retention(ctx context.Context, bucket, key string) (*objectstore.Retention, error) {
	return patiently(ctx, s.outage,
		func() (*objectstore.Retention, error) { return s.Store.Retention(ctx, bucket, key) })
}

func patiently[T any](ctx context.Context, o *outage, ask func() (T, error)) (answer T, err error) {
	err = o.call(ctx, func() (_ int64, err error) {
		answer, err = ask()
		return 0, err
	})
	return answer, err
}

// GetObject implements objectstore.Store.
func (s patientStore) GetObject(ctx context.Context, bucket, key string) (io.ReadCloser, error) {
	d := &download{ctx: ctx, store: s, bucket: bucket, key: key}
	err := s.outage.call(ctx, func() (int64, error) { return 0, d.open() })
	if err != nil {
		return nil, err
	}
	return d, nil
}

// download reads an object. After a failure it opens the object again and skips the bytes that it has already read.
type download struct {
	ctx         context.Context
	store       patientStore
	bucket, key string

	body io.ReadCloser // nil after a failure
	read int64
	sum  uint32 // of the bytes that were read
}

func (d *download) open() error {
	body, err := d.store.Store.GetObject(d.ctx, d.bucket, d.key)
	if err != nil {
		return err
	}
	skipped := crc32.NewIEEE()
	_, err = io.CopyN(skipped, body, d.read)
	switch {
	case errors.Is(err, io.EOF), err == nil && skipped.Sum32() != d.sum:
		err = finalError{fmt.Errorf("%s in bucket %q has changed while it was read", d.key, d.bucket)}
	case err == nil:
		d.body = body
		return nil
	}
	_ = body.Close() // only read from
	return err
}

// Read implements io.Reader.
func (d *download) Read(p []byte) (n int, err error) {
	var end error
	err = d.store.outage.call(d.ctx, func() (_ int64, err error) {
		if d.body == nil {
			if err := d.open(); err != nil {
				return 0, err
			}
		}
		n, err = d.body.Read(p)
		if err == nil || err == io.EOF { //nolint:errorlint // unchanged, as an io.Reader must
			end = err
			return 0, nil
		}
		_ = d.body.Close() // only read from
		d.body = nil
		if n > 0 { // the next call continues
			return 0, nil
		}
		return 0, err
	})
	if err != nil {
		return 0, err
	}
	d.read += int64(n)
	d.sum = crc32.Update(d.sum, crc32.IEEETable, p[:n])
	return n, end
}

// Close implements io.Closer.
func (d *download) Close() error {
	if d.body == nil {
		return nil
	}
	return d.body.Close()
}
