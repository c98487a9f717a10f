package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// DeleteBackup deletes every object below backups/<name>/, velero-backup.json first: without that file the backup does
// not exist. An interrupted deletion leaves objects for the next attempt, but never an incomplete backup that looks
// complete.
func (s *Store) DeleteBackup(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	keys, err := s.list(ctx, s.layout.backupDir(name))
	if err != nil {
		return err
	}
	metadata := s.layout.metadata(name)
	if slices.Contains(keys, metadata) {
		if err := s.delete(ctx, metadata); err != nil {
			return err // the backup is still complete
		}
	}
	return s.deleteAll(ctx, slices.DeleteFunc(keys, func(key string) bool { return key == metadata }))
}

// DeleteRestore deletes every object below restores/<name>/.
func (s *Store) DeleteRestore(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	keys, err := s.list(ctx, s.layout.restoreDir(name))
	if err != nil {
		return err
	}
	return s.deleteAll(ctx, keys)
}

// RemovePartial removes the files of an interrupted upload of the backup with that name and uid, after the server was
// killed or the clean-up failed as well (ErrNotCleaned). It keeps the log. If velero-backup.json has another uid, the
// directory belongs to another backup and RemovePartial does nothing. If that file cannot be read, RemovePartial
// returns an error. If it does not exist, nobody can restore from the directory, and RemovePartial removes its objects.
func (s *Store) RemovePartial(ctx context.Context, name string, uid types.UID) error {
	if uid == "" {
		return fmt.Errorf("remove what is left of backup %q: its uid is empty, want the metadata.uid of the Backup", name)
	}
	if s.final != nil {
		if err := s.final.removeStage(ctx, name, uid); err != nil {
			return err
		}
		return s.final.RemovePartial(ctx, name, uid)
	}
	owner, err := s.BackupUID(ctx, name)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	owned := err == nil && owner == uid
	return s.removeUnfinished(ctx, name, owned)
}

// RemoveTraces is RemovePartial for a backup that was deleted: the log goes too.
func (s *Store) RemoveTraces(ctx context.Context, name string, uid types.UID) error {
	if s.final != nil {
		if err := s.final.removeStage(ctx, name, uid); err != nil {
			return err
		}
		return s.final.RemoveTraces(ctx, name, uid)
	}
	if err := s.RemovePartial(ctx, name, uid); err != nil {
		return err
	}
	stored, err := s.BackupExists(ctx, name)
	if err != nil || stored {
		return err
	}
	return s.DeleteBackup(ctx, name)
}

// removeUnfinished removes an incomplete backup, velero-backup.json first, but keeps the log. If that file exists and
// is not owned, the directory belongs to another backup, and removeUnfinished does nothing. It ignores the cancellation
// of ctx. A failure is ErrNotCleaned.
func (s *Store) removeUnfinished(ctx context.Context, name string, owned bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	keys, err := s.list(ctx, s.layout.backupDir(name))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotCleaned, err)
	}
	metadata, log := s.layout.metadata(name), s.layout.log(name)
	if slices.Contains(keys, metadata) {
		if !owned {
			return nil
		}
		if err := s.delete(ctx, metadata); err != nil {
			return fmt.Errorf("%w: %w", ErrNotCleaned, err)
		}
	}
	rest := slices.DeleteFunc(keys, func(key string) bool { return key == metadata || key == log })
	if err := s.deleteAll(ctx, rest); err != nil {
		return fmt.Errorf("%w: %w", ErrNotCleaned, err)
	}
	return nil
}

// list returns the keys below dir. It returns an error if the object store lists any other key, because the keys are
// about to be deleted.
func (s *Store) list(ctx context.Context, dir string) ([]string, error) {
	keys, err := s.objects.ListObjects(ctx, s.bucket, dir)
	if err != nil {
		return nil, fmt.Errorf("list objects below %s in bucket %q: %w", dir, s.bucket, err)
	}
	for _, key := range keys {
		if !strings.HasPrefix(key, dir) {
			return nil, fmt.Errorf("list objects below %s in bucket %q: the object store answered %q, which is elsewhere",
				dir, s.bucket, key)
		}
	}
	// Deepest first, as some object stores list a directory as an object of its own.
	slices.Sort(keys)
	slices.Reverse(keys)
	return keys, nil
}

// deleteAll deletes all keys, also after a failure, and returns the first error.
func (s *Store) deleteAll(ctx context.Context, keys []string) error {
	var first error
	failures := 0
	for _, key := range keys {
		if err := s.delete(ctx, key); err != nil {
			if failures++; failures == 1 {
				first = err
			}
		}
	}
	if failures > 1 {
		return fmt.Errorf("%w (and %d more of %d)", first, failures-1, len(keys))
	}
	return first
}

func (s *Store) delete(ctx context.Context, key string) error {
	if err := s.objects.DeleteObject(ctx, s.bucket, key); err != nil {
		return fmt.Errorf("delete %s in bucket %q: %w", key, s.bucket, err)
	}
	return nil
}
