package storage

import (
	"context"
	"strings"
	"sync"

	"github.com/kopia/kopia/repo/blob"
	"github.com/kopia/kopia/repo/logging"
)

// Watcher gets to know what becomes of requests. It must be fast.
type Watcher interface {
	// Repeating is called when a request has failed and kopia repeats it, and with "" when none is repeated any more.
	Repeating(why string)
	// GaveUp is called with the error of a request that kopia does not repeat any more.
	GaveUp(err error)
}

// requests follows the requests to a storage.
type requests struct {
	following sync.Mutex
	watcher   Watcher // nil for none
	repeated  int     // requests
}

// Watch has the requests from now on told to a watcher; nil for none.
func (r *requests) Watch(w Watcher) {
	r.following.Lock()
	defer r.following.Unlock()
	r.watcher = w
}

// do makes a request.
func (r *requests) do(ctx context.Context, request func(context.Context) error) error {
	failures := &failures{of: r}
	err := request(logging.WithLogger(ctx, logging.ToWriter(failures)))
	r.following.Lock()
	defer r.following.Unlock()
	if failures.repeated {
		r.repeated--
	}
	if r.watcher == nil {
		return err
	}
	if err != nil {
		r.watcher.GaveUp(err)
	}
	if failures.repeated && r.repeated == 0 {
		r.watcher.Repeating("")
	}
	return err
}

// failures takes what kopia logs about one request: that it has failed, and is repeated. There is no other way to know.
type failures struct {
	of       *requests
	repeated bool
}

// Write implements io.Writer.
func (f *failures) Write(line []byte) (int, error) {
	_, why, failed := strings.Cut(string(line), "got error ")
	if !failed {
		return len(line), nil
	}
	if end := strings.LastIndex(why, " when "); end >= 0 {
		why = why[:end]
	}
	f.of.following.Lock()
	defer f.of.following.Unlock()
	if !f.repeated {
		f.repeated = true
		f.of.repeated++
	}
	if f.of.watcher != nil {
		f.of.watcher.Repeating(why)
	}
	return len(line), nil
}

// GetBlob implements blob.Storage.
func (c *Counted) GetBlob(ctx context.Context, id blob.ID, offset, length int64, output blob.OutputBuffer) error {
	return c.do(ctx, func(ctx context.Context) error { return c.Storage.GetBlob(ctx, id, offset, length, output) })
}

// GetMetadata implements blob.Storage.
func (c *Counted) GetMetadata(ctx context.Context, id blob.ID) (found blob.Metadata, err error) {
	err = c.do(ctx, func(ctx context.Context) error {
		found, err = c.Storage.GetMetadata(ctx, id)
		return err
	})
	return found, err
}

// PutBlob implements blob.Storage.
func (c *Counted) PutBlob(ctx context.Context, id blob.ID, data blob.Bytes, options blob.PutOptions) error {
	return c.do(ctx, func(ctx context.Context) error { return c.Storage.PutBlob(ctx, id, data, options) })
}
