package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/cleat-dev/cleat/versioning/objectstore"
)

var (
	// ErrBackupExists means that the bucket has another backup of that name. Its text is the failureReason that Velero
	// uses.
	ErrBackupExists = errors.New("backup already exists in object storage")

	// ErrNotFound means that the bucket does not have the requested file.
	ErrNotFound = errors.New("not found in object storage")

	// ErrDamaged means that a file is invalid: it was truncated or changed, or has another format.
	ErrDamaged = errors.New("the file is damaged")

	// ErrLost means that the object store has acknowledged a file and does not have it.
	ErrLost = errors.New("the object store has acknowledged the file and lost it")

	// ErrNotCleaned means that a failed upload left objects in the bucket because the clean-up failed as well.
	// RemovePartial removes them once the object store works again.
	ErrNotCleaned = errors.New("clean-up of the failed upload did not succeed, the bucket needs another try")
)

// cleanupTimeout bounds the clean-up after a failure. The clean-up has a context of its own, because its usual reason
// is that the caller's context was cancelled.
const cleanupTimeout = 30 * time.Second

// Store is one backup storage location: a bucket, or a prefix in one, in Velero's layout. It is safe for concurrent
// use, but callers must not upload two backups of the same name at the same time.
type Store struct {
	// Warn, if set, is called with harmless mistakes of the object store. It gets the same message each time.
	Warn func(message string)

	objects objectstore.Store
	bucket  string
	layout  layout
	final   *Store // where the files go that are staged here; nil if they are not staged
}

// New returns the location at prefix in bucket. Slashes around prefix are ignored.
func New(objects objectstore.Store, bucket, prefix string) *Store {
	return &Store{objects: objects, bucket: bucket, layout: newLayout(prefix)}
}

// With returns the location on its object store as wrap returns it.
func (s *Store) With(wrap func(objectstore.Store) objectstore.Store) *Store {
	wrapped := *s
	wrapped.objects = wrap(s.objects)
	if s.final != nil {
		wrapped.final = s.final.With(wrap)
	}
	return &wrapped
}

// Validate checks that the bucket can be listed and that its top level has only Velero's directories. An empty bucket
// is valid.
func (s *Store) Validate(ctx context.Context) error {
	dirs, err := s.directories(ctx, s.layout.root)
	if err != nil {
		return err
	}
	foreign := slices.DeleteFunc(dirs, func(dir string) bool { return slices.Contains(topLevel(), dir) })
	if len(foreign) == 0 {
		return nil
	}
	count := ""
	if len(foreign) > 3 {
		count = fmt.Sprintf("%d ", len(foreign))
		foreign = append(foreign[:3], "...")
	}
	// clients know this start
	text := fmt.Sprintf("Backup store contains %sinvalid top-level directories: %v", count, foreign)
	return errors.New(text + "; give the location a bucket or prefix of its own, or remove them (allowed are " +
		strings.Join(topLevel(), ", ") + ")")
}

// BackupExists reports whether the bucket has the velero-backup.json of that backup.
func (s *Store) BackupExists(ctx context.Context, name string) (bool, error) {
	if err := checkName(name); err != nil {
		return false, err
	}
	return s.exists(ctx, s.layout.metadata(name))
}

// ListBackups returns the names of the directories below backups/, sorted, whether or not they have a
// velero-backup.json. Those whose names are not valid names of backups are in foreign.
func (s *Store) ListBackups(ctx context.Context) (names, foreign []string, err error) {
	all, err := s.directories(ctx, s.layout.backups)
	if err != nil {
		return nil, nil, err
	}
	slices.Sort(all)
	for _, name := range slices.Compact(all) {
		if checkName(name) != nil {
			foreign = append(foreign, name)
		} else {
			names = append(names, name)
		}
	}
	return names, foreign, nil
}

// ListPodVolumeBackups reports for each backup with a velero-backup.json whether it has a list of PodVolumeBackups. It
// lists all files of all backups, which costs less than a call for each of many backups.
func (s *Store) ListPodVolumeBackups(ctx context.Context) (map[string]bool, error) {
	keys, err := s.objects.ListObjects(ctx, s.bucket, s.layout.backups)
	if err != nil {
		return nil, fmt.Errorf("list the files below %q in bucket %q: %w", s.layout.backups, s.bucket, err)
	}
	complete, have := map[string]bool{}, map[string]bool{}
	for _, key := range keys {
		name, _, _ := strings.Cut(strings.TrimPrefix(key, s.layout.backups), "/")
		switch key {
		case s.layout.metadata(name):
			complete[name] = true
		case s.layout.podVolumeBackups(name):
			have[name] = true
		}
	}
	for name := range complete {
		complete[name] = have[name]
	}
	return complete, nil
}

// SignedURL returns a URL from which anyone can read a file, for ttl. It does not check that the file exists.
func (s *Store) SignedURL(ctx context.Context, file File, ttl time.Duration) (string, error) {
	key, err := s.layout.key(file)
	if err != nil {
		return "", err
	}
	url, err := s.objects.CreateSignedURL(ctx, s.bucket, key, ttl)
	if err != nil {
		return "", fmt.Errorf("sign a URL for %s in bucket %q: %w", key, s.bucket, err)
	}
	return url, nil
}

// Exists reports whether the bucket has a file.
func (s *Store) Exists(ctx context.Context, file File) (bool, error) {
	key, err := s.layout.key(file)
	if err != nil {
		return false, err
	}
	return s.exists(ctx, key)
}

// Download streams a file as it is stored, compressed. It returns ErrNotFound if there is none.
func (s *Store) Download(ctx context.Context, file File) (io.ReadCloser, error) {
	if isAllFiles(file) {
		return s.allFiles(ctx, file.Name)
	}
	key, err := s.layout.key(file)
	if err != nil {
		return nil, err
	}
	return s.open(ctx, key)
}

// directories returns the names directly below dir. As Velero does, it takes common prefixes with or without dir before
// the name and a slash after it, and leaves dir itself out. It returns an error if the object store lists anything
// else.
func (s *Store) directories(ctx context.Context, dir string) ([]string, error) {
	prefixes, err := s.objects.ListCommonPrefixes(ctx, s.bucket, dir, "/")
	if err != nil {
		return nil, fmt.Errorf("list directories below %q in bucket %q: %w", dir, s.bucket, err)
	}
	names := make([]string, 0, len(prefixes))
	for _, prefix := range prefixes {
		name := strings.TrimSuffix(strings.TrimPrefix(prefix, dir), "/")
		if strings.Contains(name, "/") {
			return nil, fmt.Errorf("list directories below %q in bucket %q: the object store answered %q, want %q",
				dir, s.bucket, prefix, dir+"NAME/")
		}
		if prefix != dir+name+"/" || name == "" {
			s.warn("it lists the common prefixes below a directory without the directory or the slash at their end, " +
				"or lists the directory itself; want DIRECTORY/NAME/")
		}
		if name != "" {
			names = append(names, name)
		}
	}
	return names, nil
}

func (s *Store) warn(message string) {
	if s.Warn != nil {
		s.Warn(message)
	}
}

func (s *Store) exists(ctx context.Context, key string) (bool, error) {
	found, err := s.objects.ObjectExists(ctx, s.bucket, key)
	if err != nil {
		return false, fmt.Errorf("look for %s in bucket %q: %w", key, s.bucket, err)
	}
	return found, nil
}
