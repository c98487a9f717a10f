package storage

import (
	"context"
	"sync"

	"github.com/kopia/kopia/repo/blob"
)

// Counted counts the bytes of the blobs that are deleted. Maintenance lists blobs before it deletes them, so that no
// request is needed for their sizes. It tells a Watcher about requests that fail.
type Counted struct {
	blob.Storage
	requests

	mu    sync.Mutex
	sizes map[blob.ID]int64
	freed int64
}

// Count returns a storage that counts.
func Count(st blob.Storage) *Counted { return &Counted{Storage: st, sizes: map[blob.ID]int64{}} }

// Freed returns how many bytes were deleted.
func (c *Counted) Freed() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.freed
}

// ListBlobs implements blob.Storage.
func (c *Counted) ListBlobs(ctx context.Context, prefix blob.ID, callback func(blob.Metadata) error) error {
	return c.do(ctx, func(ctx context.Context) error {
		return c.Storage.ListBlobs(ctx, prefix, func(found blob.Metadata) error {
			c.mu.Lock()
			c.sizes[found.BlobID] = found.Length
			c.mu.Unlock()
			return callback(found)
		})
	})
}

// DeleteBlob implements blob.Storage.
func (c *Counted) DeleteBlob(ctx context.Context, id blob.ID) error {
	err := c.do(ctx, func(ctx context.Context) error { return c.Storage.DeleteBlob(ctx, id) })
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.freed += c.sizes[id]
	delete(c.sizes, id)
	return nil
}
