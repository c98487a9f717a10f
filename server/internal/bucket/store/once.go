package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// rewrittenDir is the directory of a backup or restore that has the files which were written again, in a location that
// writes each key once.
const rewrittenDir = "rewritten"

// Once returns the location with an object store that writes no key twice. A file of a restore, and whatever else is
// written again beside a backup, is DIR/FILE first, then DIR/rewritten/FILE/000001 and so on; the newest one counts.
// What is written on the condition that it is absent is passed on as it is.
func (s *Store) Once() *Store {
	l := s.layout
	return s.With(func(objects objectstore.Store) objectstore.Store { return once{objects, l} })
}

type once struct {
	objectstore.Store
	layout layout
}

// again returns the directory of the later versions of an object; "" if it has none.
func (s once) again(key string) string {
	for _, root := range []string{s.layout.backups, s.layout.restores} {
		if rest, ok := strings.CutPrefix(key, root); ok && strings.Count(rest, "/") == 1 {
			return path.Join(path.Dir(key), rewrittenDir, path.Base(key)) + "/"
		}
	}
	return ""
}

// newest returns the key of the newest version of an object, which is key itself if there is no later one.
func (s once) newest(ctx context.Context, bucket, key string) (string, error) {
	dir := s.again(key)
	if dir == "" {
		return key, nil
	}
	keys, err := s.ListObjects(ctx, bucket, dir)
	if err != nil || len(keys) == 0 {
		return key, err
	}
	return slices.Max(keys), nil
}

// PutObject implements objectstore.Store.
func (s once) PutObject(ctx context.Context, bucket, key string, body io.Reader) error {
	again, repeatable := body.(io.Seeker)
	if hostapi.AsksIfAbsent(ctx) || s.again(key) == "" || !repeatable {
		return s.Store.PutObject(hostapi.IfAbsent(ctx), bucket, key, body)
	}
	for to := key; ; {
		exists, err := s.ObjectExists(ctx, bucket, to)
		if err != nil {
			return err
		}
		if !exists {
			err = s.Store.PutObject(hostapi.IfAbsent(ctx), bucket, to, body)
			if !errors.Is(err, versioning.ErrExists) {
				return err
			}
			if _, err := again.Seek(0, io.SeekStart); err != nil {
				return err
			}
		}
		if to, err = s.next(ctx, bucket, key); err != nil {
			return err
		}
	}
}

// next returns the key of the next version of an object that exists.
func (s once) next(ctx context.Context, bucket, key string) (string, error) {
	newest, err := s.newest(ctx, bucket, key)
	if err != nil {
		return "", err
	}
	return nextVersion(bucket, s.again(key), strings.TrimPrefix(newest, key))
}

// nextVersion returns the key of the version in dir after newest, which is "" if there is none.
func nextVersion(bucket, dir, newest string) (string, error) {
	last := 0
	if newest != "" {
		var err error
		if last, err = strconv.Atoi(path.Base(newest)); err != nil {
			return "", fmt.Errorf("%s in bucket %q is not a version of a file, whose names are numbers; remove it", newest,
				bucket)
		}
	}
	return fmt.Sprintf("%s%06d", dir, last+1), nil
}

// GetObject implements objectstore.Store.
func (s once) GetObject(ctx context.Context, bucket, key string) (io.ReadCloser, error) {
	newest, err := s.newest(ctx, bucket, key)
	if err != nil {
		return nil, err
	}
	return s.Store.GetObject(ctx, bucket, newest)
}

// CreateSignedURL implements objectstore.Store.
func (s once) CreateSignedURL(ctx context.Context, bucket, key string, ttl time.Duration) (string, error) {
	newest, err := s.newest(ctx, bucket, key)
	if err != nil {
		return "", err
	}
	return s.Store.CreateSignedURL(ctx, bucket, newest, ttl)
}
