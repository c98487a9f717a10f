package store

import (
	"context"
	"errors"
	"io"

	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/server/internal/bucket/rehearsal"
	"github.com/cleat-dev/cleat/versioning"
)

// PutRehearsal stores the report of a rehearsal, compressed with gzip, beside the backup, once: a report of that id
// that exists stays.
func (s *Store) PutRehearsal(ctx context.Context, backup, id string, report io.ReadSeeker) error {
	name := rehearsal.FileName(id)
	if err := errors.Join(checkName(backup), CheckArtifact(name)); err != nil {
		return err
	}
	err := s.put(hostapi.IfAbsent(ctx), s.layout.artifact(backup, name), report)
	if errors.Is(err, versioning.ErrExists) {
		return nil
	}
	return err
}

// Rehearsal streams the report of a rehearsal, uncompressed. It returns ErrNotFound if there is none.
func (s *Store) Rehearsal(ctx context.Context, backup, id string) (io.ReadCloser, error) {
	name := rehearsal.FileName(id)
	if err := errors.Join(checkName(backup), CheckArtifact(name)); err != nil {
		return nil, err
	}
	return s.gunzip(ctx, s.layout.artifact(backup, name))
}

// RestoreItems streams what became of the items of a restore, uncompressed. It returns ErrNotFound if that is not
// stored.
func (s *Store) RestoreItems(ctx context.Context, restore string) (io.ReadCloser, error) {
	if err := checkName(restore); err != nil {
		return nil, err
	}
	return s.gunzip(ctx, s.layout.restoreItems(restore))
}
