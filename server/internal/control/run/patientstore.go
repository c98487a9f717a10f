package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path"
	"slices"
	"time"

	"github.com/cleat-dev/cleat/framework/hostapi"
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
	again, repeatable := body.(io.ReadSeeker)
	if !repeatable {
		return s.Store.PutObject(ctx, bucket, key, body)
	}
	return s.outage.call(ctx, func() (far int64, err error) {
		if _, err := again.Seek(0, io.SeekStart); err != nil {
			return 0, finalError{err}
		}
		counted := &countedBody{body: again, silence: s.outage.watch(ctx)}
		defer counted.silence.end()
		err = s.Store.PutObject(ctx, bucket, key, counted)
		if err != nil && counted.failed {
			err = finalError{err} // the object store has not failed
		}
		return counted.read, err
	})
}

// countedBody counts the bytes that an object store has read.
type countedBody struct {
	body    io.ReadSeeker
	read    int64
	failed  bool
	silence *silence // while the object store does not read
}

// Read implements io.Reader.
func (b *countedBody) Read(p []byte) (int, error) {
	b.silence.pause()
	defer b.silence.resume()
	n, err := b.body.Read(p)
	b.read += int64(n)
	b.failed = b.failed || err != nil && err != io.EOF //nolint:errorlint // unchanged, as an io.Reader must
	return n, err
}

// Seek implements io.Seeker, for object stores that read a body again.
func (b *countedBody) Seek(offset int64, whence int) (int64, error) {
	at, err := b.body.Seek(offset, whence)
	if err != nil {
		b.failed = true
		return at, err
	}
	b.read = at
	return at, nil
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
	defer s.outage.watch(ctx).end()
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
	defer o.watch(ctx).end()
	err = o.call(ctx, func() (_ int64, err error) {
		answer, err = ask()
		return 0, err
	})
	return answer, err
}

// GetObject implements objectstore.Store.
func (s patientStore) GetObject(ctx context.Context, bucket, key string) (io.ReadCloser, error) {
	defer s.outage.watch(ctx).end()
	d := &download{ctx: ctx, store: s, bucket: bucket, key: key}
	err := s.outage.call(ctx, func() (int64, error) { return 0, d.open() })
	if err != nil {
		return nil, err
	}
	return d, nil
}

// download reads an object, or the range of it that its context asks for. After a failure it opens the object again: at
// the byte that it has read last, or from the start if the store does not support ranges, and then it skips what it has
// read.
type download struct {
	ctx         context.Context
	store       patientStore
	bucket, key string

	body    io.ReadCloser // nil after a failure
	part    *hostapi.Part // that the first body has; nil for the whole object
	read    int64
	sum     uint32    // of the bytes that were read
	tail    []byte    // the last of them
	suspect time.Time // since when the object has the content of something else
}

const (
	// overlap is how many bytes are read again, to find out whether the object has changed.
	overlap = 1 << 10
	// suspectFor is how long an object that cannot be what was stored is read again.
	suspectFor = 30 * time.Second
)

// Part returns the range of the object; nil for the whole.
func (d *download) Part() *hostapi.Part { return d.part }

func (d *download) open() error {
	ctx, from := d.rest()
	body, err := d.store.Store.GetObject(ctx, d.bucket, d.key)
	if err != nil {
		return err
	}
	part := objectstore.PartOf(body)
	if d.read == 0 {
		d.part, d.body = part, body
		return nil
	}
	if err := d.skip(body, part, from); err != nil {
		_ = body.Close() // only read from
		return err
	}
	d.body = body
	return nil
}

// rest returns the context that asks for what was not read yet and the bytes before it, and where that begins in the
// object.
func (d *download) rest() (context.Context, int64) {
	asked := hostapi.RangeOf(d.ctx)
	if d.read == 0 || asked != nil && d.part == nil {
		return d.ctx, 0
	}
	again := hostapi.Range{Offset: d.start() + d.read - int64(len(d.tail))}
	if asked != nil && asked.Length > 0 {
		again.Length = asked.Length - d.read + int64(len(d.tail))
	}
	return hostapi.WithRange(d.ctx, again), again.Offset
}

// start returns where the first byte that was read is in the object.
func (d *download) start() int64 {
	if d.part == nil {
		return 0
	}
	return d.part.Offset
}

// skip reads what was read before, which must not have changed.
func (d *download) skip(body io.Reader, part *hostapi.Part, from int64) error {
	var same bool
	var err error
	switch {
	case part != nil && part.Offset == from:
		again := make([]byte, len(d.tail))
		_, err = io.ReadFull(body, again)
		same = bytes.Equal(again, d.tail)
	case part != nil:
		return fmt.Errorf("%s in bucket %q was asked for from byte %d on, and sent from byte %d on", d.key, d.bucket, from,
			part.Offset)
	default:
		skipped := crc32.NewIEEE()
		if _, err = io.CopyN(io.Discard, body, d.start()); err == nil {
			_, err = io.CopyN(skipped, body, d.read)
		}
		same = skipped.Sum32() == d.sum
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), err == nil && !same:
		return finalError{fmt.Errorf("%s in bucket %q has changed while it was read", d.key, d.bucket)}
	case err != nil:
		return fmt.Errorf("%w: %w", errCut, err)
	}
	return nil
}

// Read implements io.Reader.
func (d *download) Read(p []byte) (n int, err error) {
	var end error
	defer d.store.outage.watch(d.ctx).end()
	err = d.store.outage.call(d.ctx, func() (_ int64, err error) {
		if d.body == nil {
			if err := d.open(); err != nil {
				return 0, err
			}
		}
		n, err = d.body.Read(p)
		if d.read == 0 && n > 0 && d.isForeign(p[:n]) {
			err = fmt.Errorf("%w: %s in bucket %q was answered with a document that begins with %.60q", errCut, d.key, d.bucket,
				p[:n])
			n = 0
		}
		if err == nil || err == io.EOF { //nolint:errorlint // unchanged, as an io.Reader must
			end = err
			return 0, nil
		}
		_ = d.body.Close() // only read from
		d.body = nil
		if n > 0 { // the next call continues
			return 0, nil
		}
		if d.read > 0 {
			err = fmt.Errorf("%w: %w", errCut, err)
		}
		return 0, err
	})
	if err != nil {
		return 0, err
	}
	d.read += int64(n)
	d.sum = crc32.Update(d.sum, crc32.IEEETable, p[:n])
	d.tail = append(d.tail, p[max(0, n-overlap):n]...)
	d.tail = slices.Delete(d.tail, 0, max(0, len(d.tail)-overlap))
	return n, end
}

// isForeign reports whether the content of an object is the error or the page of something between this process and the
// object store: neither JSON nor what is compressed begins like XML or HTML. What does so for long is as it was stored.
func (d *download) isForeign(content []byte) bool {
	if !bytes.HasPrefix(bytes.TrimLeft(content, " \t\r\n\ufeff"), []byte("<")) ||
		path.Ext(d.key) != ".gz" && path.Ext(d.key) != ".json" {
		return false
	}
	if d.suspect.IsZero() {
		d.suspect = time.Now()
	}
	return time.Since(d.suspect) < min(suspectFor, d.store.outage.limit)
}

// Close implements io.Closer.
func (d *download) Close() error {
	if d.body == nil {
		return nil
	}
	return d.body.Close()
}
