package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// Retain returns the location with an object store that is asked to keep the files of backups until a time. Staged files
// are not kept.
func (s *Store) Retain(until time.Time) *Store {
	kept := *s
	if s.final != nil {
		kept.final = s.final.Retain(until)
	} else {
		kept.objects = retaining{Store: s.objects, store: s, until: until}
	}
	return &kept
}

type retaining struct {
	objectstore.Store
	store *Store
	until time.Time
}

// PutObject implements objectstore.Store.
func (s retaining) PutObject(ctx context.Context, bucket, key string, body io.Reader) error {
	if rest, ok := strings.CutPrefix(key, s.store.layout.backups); ok {
		if name, _, ok := strings.Cut(rest, "/"); ok && !s.store.isVersion(name, key) {
			ctx = hostapi.RetainUntil(ctx, s.until)
		}
	}
	return s.Store.PutObject(ctx, bucket, key, body)
}

// Locks returns what the bucket locks. The error is errors.ErrUnsupported if the object store does not tell.
func (s *Store) Locks(ctx context.Context) (*objectstore.Locks, error) {
	locks, err := s.objects.Locks(ctx, s.bucket)
	if err != nil {
		return nil, fmt.Errorf("look for the locks of bucket %q: %w", s.bucket, err)
	}
	return locks, nil
}

// Kept is what keeps a backup from being deleted.
type Kept struct {
	Until time.Time // the latest of all files; zero if none is kept until a time
	Held  bool      // whether a file is held
}

// Kept returns what keeps a backup from being deleted at a time. It is the zero value if nothing does, as far as the
// object store tells.
func (s *Store) Kept(ctx context.Context, name string, now time.Time) (Kept, error) {
	var all Kept
	var mu sync.Mutex
	err := s.eachFile(ctx, name, func(ctx context.Context, key string) error {
		kept, err := s.objects.Retention(ctx, s.bucket, key)
		switch {
		case errors.Is(err, versioning.ErrNotFound): // it was deleted meanwhile
			return nil
		case err != nil:
			return fmt.Errorf("look for the lock of %s in bucket %q: %w", key, s.bucket, err)
		}
		mu.Lock()
		defer mu.Unlock()
		all.Held = all.Held || kept.Held
		if kept.Keeps(now) && kept.Until.After(all.Until) {
			all.Until = kept.Until
		}
		return nil
	})
	if errors.Is(err, errors.ErrUnsupported) {
		return Kept{}, nil
	}
	return all, err
}

// Hold holds all files of a backup, or ends that. The error is errors.ErrUnsupported if the object store cannot do that,
// and ErrNotFound if there are no files. It can be repeated.
func (s *Store) Hold(ctx context.Context, name string, on bool) error {
	if found, err := s.BackupExists(ctx, name); err != nil {
		return err
	} else if !found {
		return fmt.Errorf("%s in bucket %q: %w", s.layout.metadata(name), s.bucket, ErrNotFound)
	}
	return s.eachFile(ctx, name, func(ctx context.Context, key string) error {
		if err := s.objects.SetHold(ctx, s.bucket, key, on); err != nil && !errors.Is(err, versioning.ErrNotFound) {
			return fmt.Errorf("hold %s in bucket %q: %w", key, s.bucket, err)
		}
		return nil
	})
}

// eachFile calls f for the files of a backup, several at once, until the first error.
func (s *Store) eachFile(ctx context.Context, name string, f func(ctx context.Context, key string) error) error {
	if err := checkName(name); err != nil {
		return err
	}
	keys, err := s.list(ctx, s.layout.backupDir(name))
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, key := range keys {
		group.Go(func() error { return f(ctx, key) })
	}
	return group.Wait()
}
