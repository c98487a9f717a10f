package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
	"golang.org/x/time/rate"
)

// Mover moves files. Its methods may be called concurrently.
type Mover struct {
	// Bucket holds the snapshots.
	Bucket *blob.Bucket
	// PackSize is the size of packs in bytes.
	PackSize int
	// Streams is the number of packs that a transfer sends or fetches at a time.
	Streams int
	// Limit limits the bytes per second of all transfers together. Nil means no limit.
	Limit Limiter
	// Patience is how long a transfer repeats a failed call of the bucket.
	Patience time.Duration
}

// Limiter limits the rate, with at most Burst bytes at a time. It is implemented by rate.Limiter.
type Limiter interface {
	WaitN(ctx context.Context, n int) error
	Burst() int
}

// NewLimit returns a Limiter, or nil for no limit if bytesPerSecond is 0.
func NewLimit(bytesPerSecond int) Limiter {
	if bytesPerSecond <= 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(bytesPerSecond), bytesPerSecond)
}

// throttle waits until n bytes may be moved.
func (m *Mover) throttle(ctx context.Context, n int) error {
	if m.Limit == nil {
		return ctx.Err()
	}
	for n > 0 {
		step := min(n, m.Limit.Burst())
		if err := m.Limit.WaitN(ctx, step); err != nil {
			return err
		}
		n -= step
	}
	return nil
}

func (m *Mover) put(ctx context.Context, key string, content []byte) error {
	return m.patiently(ctx, "write", key, func() error { return m.Bucket.WriteAll(ctx, key, content, nil) })
}

func (m *Mover) get(ctx context.Context, key string) (content []byte, err error) {
	err = m.patiently(ctx, "read", key, func() error {
		content, err = m.Bucket.ReadAll(ctx, key)
		return err
	})
	return content, err
}

// list returns the keys that begin with prefix.
func (m *Mover) list(ctx context.Context, prefix string) (keys []string, err error) {
	err = m.patiently(ctx, "list", prefix, func() error {
		keys = nil
		for objects := m.Bucket.List(&blob.ListOptions{Prefix: prefix}); ; {
			object, err := objects.Next(ctx)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			keys = append(keys, object.Key)
		}
	})
	return keys, err
}

// Delete deletes a snapshot. It is not an error if there is none.
func (m *Mover) Delete(ctx context.Context, snapshot string) error {
	keys, err := m.list(ctx, snapshot+"/")
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := m.patiently(ctx, "delete", key, func() error {
			err := m.Bucket.Delete(ctx, key)
			if gcerrors.Code(err) == gcerrors.NotFound {
				return nil
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// patiently calls the bucket until it succeeds, fails permanently, or the patience is over.
func (m *Mover) patiently(ctx context.Context, verb, key string, call func() error) error {
	for began, pause := time.Now(), 100*time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
		err := call()
		if err == nil {
			return nil
		}
		if err = fmt.Errorf("%s %s in the bucket: %w", verb, key, err); ctx.Err() != nil || stays(err) || time.Since(began)+
			pause > m.Patience {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// stays reports whether an error is permanent.
func stays(err error) bool {
	switch gcerrors.Code(err) {
	case gcerrors.NotFound, gcerrors.PermissionDenied, gcerrors.InvalidArgument, gcerrors.FailedPrecondition,
		gcerrors.Unimplemented:
		return true
	default:
		return false
	}
}
