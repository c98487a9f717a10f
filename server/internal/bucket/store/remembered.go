package store

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// Written remembers for a while which objects were stored, so that an object store which does not find one of them yet
// is not believed. The zero value is ready for use. It is safe for concurrent use.
type Written struct {
	mu sync.Mutex
	at map[string]time.Time // by bucket and key
}

// settleTime is how long an object store may take until it finds what it has stored.
const settleTime = 20 * time.Second

// Remembering returns the location with an object store that fails for now, instead of finding nothing, if a process has
// just stored an object.
func (s *Store) Remembering(w *Written) *Store {
	return s.With(func(objects objectstore.Store) objectstore.Store { return remembered{objects, w} })
}

func (w *Written) note(bucket, key string) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at == nil {
		w.at = map[string]time.Time{}
	}
	for other, at := range w.at {
		if now.Sub(at) > settleTime {
			delete(w.at, other)
		}
	}
	w.at[bucket+"/"+key] = now
}

func (w *Written) forget(bucket, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.at, bucket+"/"+key)
}

// missing returns an error for an object that was not found, nil if it may be missing.
func (w *Written) missing(bucket, key string) error {
	w.mu.Lock()
	at, known := w.at[bucket+"/"+key]
	w.mu.Unlock()
	if since := time.Since(at); known && since < settleTime {
		return framework.Unavailable("the object store does not find %s in bucket %q, which it has stored %s ago", key,
			bucket, since.Round(time.Millisecond))
	}
	return nil
}

type remembered struct {
	objectstore.Store
	written *Written
}

// PutObject implements objectstore.Store.
func (r remembered) PutObject(ctx context.Context, bucket, key string, body io.Reader) error {
	err := r.Store.PutObject(ctx, bucket, key, body)
	if err == nil {
		r.written.note(bucket, key)
	}
	return err
}

// DeleteObject implements objectstore.Store.
func (r remembered) DeleteObject(ctx context.Context, bucket, key string) error {
	r.written.forget(bucket, key)
	return r.Store.DeleteObject(ctx, bucket, key)
}

// ObjectExists implements objectstore.Store.
func (r remembered) ObjectExists(ctx context.Context, bucket, key string) (bool, error) {
	found, err := r.Store.ObjectExists(ctx, bucket, key)
	if err != nil || found {
		return found, err
	}
	return false, r.written.missing(bucket, key)
}

// GetObject implements objectstore.Store.
func (r remembered) GetObject(ctx context.Context, bucket, key string) (io.ReadCloser, error) {
	body, err := r.Store.GetObject(ctx, bucket, key)
	if err != nil {
		if missing := r.written.missing(bucket, key); missing != nil {
			return nil, fmt.Errorf("%w: %v", missing, err) //nolint:errorlint // it is not missing for good
		}
		return nil, err
	}
	return body, nil
}
