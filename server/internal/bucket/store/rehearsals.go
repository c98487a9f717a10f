package store

import (
	"context"
	"errors"
	"io"

	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/server/internal/bucket/rehearsal"
	"github.com/cleat-dev/cleat/versioning"
)

// PutRehearsal stores the report of a rehearsal beside the backup, once: a report of that id that exists stays.
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
