package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cleat-dev/cleat/server/internal/kube/spool"
)

// AppendBackupLog adds more, which is compressed with gzip, to the log of a backup, unless the log ends with it. The
// joined file is in dir meanwhile, "" for the system's directory of temporary files.
func (s *Store) AppendBackupLog(ctx context.Context, name, dir string, more io.ReadSeeker) error {
	return s.appendTo(ctx, name, s.layout.log, dir, more)
}

// AppendRestoreLog is AppendBackupLog for a restore.
func (s *Store) AppendRestoreLog(ctx context.Context, name, dir string, more io.ReadSeeker) error {
	return s.appendTo(ctx, name, s.layout.restoreLog, dir, more)
}

func (s *Store) appendTo(
	ctx context.Context, name string, keyOf func(string) string, dir string, more io.ReadSeeker,
) (err error) {
	if err := checkName(name); err != nil {
		return err
	}
	joined, err := spool.New(dir, "a log")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, joined.Close()) }()
	key := keyOf(name)
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
	if has, err := endsWith(joined, more); has || err != nil {
		return err
	}
	// A gzip stream may have several members.
	if _, err := io.Copy(joined, more); err != nil {
		return fmt.Errorf("join %s with what is added: %w", key, err)
	}
	if _, err := joined.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return s.put(ctx, key, joined)
}

// endsWith reports whether a file ends with the content of tail. Afterwards, the file is at its end and tail at its
// start.
func endsWith(file *spool.File, tail io.ReadSeeker) (bool, error) {
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return false, err
	}
	length, err := tail.Seek(0, io.SeekEnd)
	if err != nil {
		return false, err
	}
	if _, err := tail.Seek(0, io.SeekStart); err != nil || length > size {
		return false, err
	}
	same, err := equal(io.NewSectionReader(file, size-length, length), tail)
	if err != nil {
		return false, err
	}
	_, err = tail.Seek(0, io.SeekStart)
	return same, err
}

// equal reports whether two readers have the same content.
func equal(a, b io.Reader) (bool, error) {
	bufferA, bufferB := make([]byte, 32<<10), make([]byte, 32<<10)
	for {
		n, err := io.ReadFull(a, bufferA)
		if m, errB := io.ReadFull(b, bufferB); m != n || !bytes.Equal(bufferA[:n], bufferB[:m]) {
			return false, nilAtEnd(errB)
		}
		if err != nil {
			return true, nilAtEnd(err)
		}
	}
}

func nilAtEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}
