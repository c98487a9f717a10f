package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/objectstore"
)

// stageDir is the directory of a backup that has its files until it is final, in a location that writes each key once.
const stageDir = "staged"

// Of returns the location as the files of a backup are found in it: those of one that is not final yet may be staged
// (velerov1.StagedAnnotation).
func (s *Store) Of(b *velerov1.Backup) *Store {
	attempt := b.Annotations[velerov1.StagedAnnotation]
	if n, err := strconv.Atoi(attempt); err != nil || n < 1 || b.UID == "" {
		return s
	}
	return s.staged(b.Name, b.UID, attempt)
}

func (s *Store) staged(backup string, uid types.UID, attempt string) *Store {
	dir := s.layout.backupDir(backup)
	staged := s.With(func(objects objectstore.Store) objectstore.Store {
		return stage{Store: objects, dir: dir, to: dir + path.Join(stageDir, string(uid), attempt) + "/"}
	})
	staged.final = s
	return staged
}

// Published returns the location that the staged files of a backup are published in.
func (s *Store) Published() *Store { return s.final }

// IsStaged reports whether the location is that of a backup whose files are staged.
func (s *Store) IsStaged() bool { return s.final != nil }

// isVersion reports whether a key is one of those below a backup that have versions of its files.
func (s *Store) isVersion(backup, key string) bool {
	dir := s.layout.backupDir(backup)
	return strings.HasPrefix(key, dir+stageDir+"/") || strings.HasPrefix(key, dir+rewrittenDir+"/")
}

// removeStage removes the staged files of a backup, of all its attempts.
func (s *Store) removeStage(ctx context.Context, backup string, uid types.UID) error {
	keys, err := s.list(ctx, s.layout.backupDir(backup)+path.Join(stageDir, string(uid))+"/")
	if err == nil {
		err = s.deleteAll(ctx, keys)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotCleaned, err)
	}
	return nil
}

// Publish stores the staged files of a backup under their keys, each once, velero-backup.json last. files has their
// sums. A file that is there already, because another server was killed as it published the backup, is read and must be
// the same. Publish can be repeated, also after Unstage.
func (s *Store) Publish(ctx context.Context, backup string, files Tally) error {
	if err := checkName(backup); err != nil {
		return err
	}
	if _, ok := files[MetadataFile]; !ok {
		return fmt.Errorf("publish backup %s: the sum of its %s is not known", backup, MetadataFile)
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name != MetadataFile {
			group.Go(func() error { return s.publish(groupCtx, backup, name, files[name]) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return s.publish(ctx, backup, MetadataFile, files[MetadataFile])
}

func (s *Store) publish(ctx context.Context, backup, name string, want Sum) error {
	key := s.layout.backupDir(backup) + name
	switch found, err := s.final.exists(ctx, key); {
	case err != nil:
		return err
	case found:
		return s.mustBe(ctx, backup, key, want)
	}
	err := s.final.objects.PutObject(hostapi.IfAbsent(ctx), s.bucket, key, s.copyOf(ctx, key, want))
	if errors.Is(err, versioning.ErrExists) {
		return s.mustBe(ctx, backup, key, want)
	}
	if err != nil {
		return fmt.Errorf("publish %s in bucket %q: %w", key, s.bucket, err)
	}
	return nil
}

// mustBe returns ErrBackupExists unless a published file has the sum.
func (s *Store) mustBe(ctx context.Context, backup, key string, want Sum) error {
	found, err := s.final.sumOf(ctx, key)
	switch {
	case err != nil:
		return err
	case found != want:
		return fmt.Errorf("%w: %s in bucket %q is not the file of backup %s", ErrBackupExists, key, s.bucket, backup)
	}
	return nil
}

// Unstage removes what is staged of a backup that was published.
func (s *Store) Unstage(ctx context.Context, b *velerov1.Backup) error {
	return s.final.removeStage(ctx, b.Name, b.UID)
}

// copyOf returns the content of a staged file, which has no end unless it is the one that the sum is of.
func (s *Store) copyOf(ctx context.Context, key string, want Sum) *stagedCopy {
	return &stagedCopy{open: func() (io.ReadCloser, error) { return s.open(ctx, key) }, key: key, want: want}
}

type stagedCopy struct {
	open func() (io.ReadCloser, error)
	key  string
	want Sum

	body io.ReadCloser // nil until it is read
	read *summed
}

// Read implements io.Reader.
func (c *stagedCopy) Read(p []byte) (int, error) {
	if c.body == nil {
		body, err := c.open()
		if err != nil {
			return 0, err
		}
		c.body, c.read = body, newSummed(body)
	}
	n, err := c.read.Read(p)
	if err == nil {
		return n, nil
	}
	_ = c.body.Close()                                         // only read from
	if got := c.read.total(); err == io.EOF && got != c.want { //nolint:errorlint // unchanged, as an io.Reader must
		err = fmt.Errorf("%w: the staged %s has %d bytes and the sum %s, want the %d bytes with %s that the server has "+
			"stored", ErrDamaged, c.key, got.Size, got.SHA256, c.want.Size, c.want.SHA256)
	}
	return n, err
}

// Seek implements io.Seeker. It returns to the start only.
func (c *stagedCopy) Seek(offset int64, whence int) (int64, error) {
	if offset != 0 || whence != io.SeekStart {
		return 0, errors.New("the content can be read from its start only")
	}
	if c.body != nil {
		_ = c.body.Close() // only read from
	}
	c.body, c.read = nil, nil
	return 0, nil
}

// stage is an object store that keeps the objects below dir in another directory, each version of one under a key of its
// own, so that no key is written twice: dir/NAME is to/NAME/000001, then to/NAME/000002. The newest one counts.
type stage struct {
	objectstore.Store
	dir, to string
}

// versions returns the keys of an object, the oldest first.
func (s stage) versions(ctx context.Context, bucket, name string) ([]string, error) {
	keys, err := s.Store.ListObjects(ctx, bucket, s.to+name+"/")
	slices.Sort(keys)
	return keys, err
}

// newest returns the key of the newest version of an object, key itself if it is not staged, and "" if there is none.
func (s stage) newest(ctx context.Context, bucket, key string) (string, error) {
	name, ok := strings.CutPrefix(key, s.dir)
	if !ok {
		return key, nil
	}
	keys, err := s.versions(ctx, bucket, name)
	if err != nil || len(keys) == 0 {
		return "", err
	}
	return keys[len(keys)-1], nil
}

// PutObject implements objectstore.Store.
func (s stage) PutObject(ctx context.Context, bucket, key string, body io.Reader) error {
	name, ok := strings.CutPrefix(key, s.dir)
	if !ok {
		return s.Store.PutObject(ctx, bucket, key, body)
	}
	for {
		next, err := s.next(ctx, bucket, name)
		if err != nil {
			return err
		}
		err = s.Store.PutObject(hostapi.IfAbsent(ctx), bucket, next, body)
		again, repeatable := body.(io.Seeker)
		if !errors.Is(err, versioning.ErrExists) || !repeatable {
			return err
		}
		// An attempt has stored the object, and its answer was lost.
		if _, err := again.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
}

// next returns the key of the next version of an object.
func (s stage) next(ctx context.Context, bucket, name string) (string, error) {
	keys, err := s.versions(ctx, bucket, name)
	if err != nil {
		return "", err
	}
	newest := ""
	if len(keys) > 0 {
		newest = keys[len(keys)-1]
	}
	return nextVersion(bucket, s.to+name+"/", newest)
}

// ObjectExists implements objectstore.Store.
func (s stage) ObjectExists(ctx context.Context, bucket, key string) (bool, error) {
	newest, err := s.newest(ctx, bucket, key)
	if err != nil || newest != key {
		return newest != "", err
	}
	return s.Store.ObjectExists(ctx, bucket, key)
}

// GetObject implements objectstore.Store.
func (s stage) GetObject(ctx context.Context, bucket, key string) (io.ReadCloser, error) {
	newest, err := s.newest(ctx, bucket, key)
	if err != nil {
		return nil, err
	}
	if newest == "" {
		return nil, fmt.Errorf("%s is not staged: %w", key, ErrNotFound)
	}
	return s.Store.GetObject(ctx, bucket, newest)
}

// ListObjects implements objectstore.Store.
func (s stage) ListObjects(ctx context.Context, bucket, prefix string) ([]string, error) {
	rest, ok := strings.CutPrefix(prefix, s.dir)
	if !ok {
		return s.Store.ListObjects(ctx, bucket, prefix)
	}
	keys, err := s.Store.ListObjects(ctx, bucket, s.to+rest)
	if err != nil {
		return nil, err
	}
	for i, key := range keys {
		keys[i] = s.dir + path.Dir(strings.TrimPrefix(key, s.to))
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

// DeleteObject implements objectstore.Store. It deletes the newest version last.
func (s stage) DeleteObject(ctx context.Context, bucket, key string) error {
	name, ok := strings.CutPrefix(key, s.dir)
	if !ok {
		return s.Store.DeleteObject(ctx, bucket, key)
	}
	keys, err := s.versions(ctx, bucket, name)
	for _, key := range keys {
		if err == nil {
			err = s.Store.DeleteObject(ctx, bucket, key)
		}
	}
	return err
}

// CreateSignedURL implements objectstore.Store.
func (s stage) CreateSignedURL(ctx context.Context, bucket, key string, ttl time.Duration) (string, error) {
	newest, err := s.newest(ctx, bucket, key)
	if err != nil {
		return "", err
	}
	if newest == "" {
		newest = key
	}
	return s.Store.CreateSignedURL(ctx, bucket, newest, ttl)
}
