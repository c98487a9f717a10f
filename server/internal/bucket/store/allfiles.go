package store

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// AllFiles is the artifact of a backup that stands for all its files: a zip archive with each at its path in a bucket,
// as it is stored, velero-backup.json last. It is made while it is read.
const AllFiles = "all-files.zip"

var errAllFiles = errors.New("all files of a backup are not a file in the bucket, but made of them")

func isAllFiles(file File) bool {
	return file.Kind == velerov1.DownloadTargetKindBackupResourceList && file.Artifact == AllFiles
}

// allFiles streams AllFiles of a backup. It returns ErrNotFound if there is no such backup.
func (s *Store) allFiles(ctx context.Context, backup string) (io.ReadCloser, error) {
	if err := checkName(backup); err != nil {
		return nil, err
	}
	keys, err := s.list(ctx, s.layout.backupDir(backup))
	if err != nil {
		return nil, err
	}
	metadata := s.layout.metadata(backup)
	others := slices.DeleteFunc(keys, func(key string) bool {
		return key == metadata || strings.HasSuffix(key, "/") || s.isVersion(backup, key)
	})
	if found, err := s.exists(ctx, metadata); err != nil || !found {
		return nil, errors.Join(err, fmt.Errorf("%s in bucket %q: %w", metadata, s.bucket, ErrNotFound))
	}
	ctx, cancel := context.WithCancel(ctx)
	out, to := io.Pipe()
	go func() { _ = to.CloseWithError(s.zip(ctx, append(others, metadata), to)) }() // nil is the regular end
	return &zipped{PipeReader: out, cancel: cancel}, nil
}

// zip writes files to an archive, whose entries have the keys of a location without prefix.
func (s *Store) zip(ctx context.Context, keys []string, to io.Writer) error {
	archive := zip.NewWriter(to)
	for _, key := range keys {
		// the files are compressed already
		entry, err := archive.CreateHeader(&zip.FileHeader{Name: strings.TrimPrefix(key, s.layout.root), Method: zip.Store})
		if err != nil {
			return err
		}
		body, err := s.open(ctx, key)
		if err != nil {
			return err
		}
		_, err = io.Copy(entry, body)
		if err := errors.Join(err, body.Close()); err != nil {
			return fmt.Errorf("read %s in bucket %q: %w", key, s.bucket, err)
		}
	}
	return archive.Close()
}

// zipped is an archive that is being made.
type zipped struct {
	*io.PipeReader
	cancel context.CancelFunc
}

// Close ends the archive, also before its end.
func (z *zipped) Close() error {
	z.cancel()
	return z.PipeReader.Close()
}
