package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// AppendRestoreLog adds more, which is compressed with gzip, to the log of a restore. The joined file is in dir meanwhile, "" for the
// system's directory of temporary files.
func (s *Store) AppendRestoreLog(ctx context.Context, name, dir string, more io.ReadSeeker) (err error) {
	if err := checkName(name); err != nil {
		return err
	}
	joined, err := os.CreateTemp(dir, "restorelog-*.gz")
	if err != nil {
		return fmt.Errorf("create a temporary file for the log: %w", err)
	}
	defer func() { err = errors.Join(err, joined.Close(), os.Remove(joined.Name())) }()
	key := s.layout.restoreLog(name)
	stored, err := s.open(ctx, key)
	switch {
	case errors.Is(err, ErrNotFound):
	case err != nil:
		return err
	default:
		_, err = io.Copy(joined, stored)
		_ = stored.Close() // only read from
		if err != nil {
			return fmt.Errorf("read %s in bucket %q: %w", key, s.bucket, err)
		}
	}
	// A gzip stream may have several members.
	if _, err := io.Copy(joined, more); err != nil {
		return fmt.Errorf("join the logs of the restore: %w", err)
	}
	if _, err := joined.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return s.put(ctx, key, joined)
}
