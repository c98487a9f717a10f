package store

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/cleat-dev/cleat/framework/hostapi"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/internal/bucket/rehearsal"
)

// PutRehearsal stores the file of a report of a rehearsal beside the backup, and compresses it. It returns
// versioning.ErrExists if there is a report of that id, which stays.
func (s *Store) PutRehearsal(ctx context.Context, backup, id string, file []byte) error {
	name := rehearsal.FileName(id)
	if err := errors.Join(checkName(backup), CheckArtifact(name)); err != nil {
		return err
	}
	var buffer bytes.Buffer
	compressed := gzip.NewWriter(&buffer)
	_, err := compressed.Write(file)
	if err := cmp.Or(err, compressed.Close()); err != nil {
		return fmt.Errorf("compress the report of a rehearsal: %w", err)
	}
	return s.put(hostapi.IfAbsent(ctx), s.layout.artifact(backup, name), bytes.NewReader(buffer.Bytes()))
}

// Rehearsal streams the report of a rehearsal, uncompressed. It returns ErrNotFound if there is none.
func (s *Store) Rehearsal(ctx context.Context, backup, id string) (io.ReadCloser, error) {
	name := rehearsal.FileName(id)
	if err := errors.Join(checkName(backup), CheckArtifact(name)); err != nil {
		return nil, err
	}
	return s.gunzip(ctx, s.layout.artifact(backup, name))
}

// PutRestoreItems stores what became of each item of a restore, which is compressed with gzip. It returns the tally of
// that file.
func (s *Store) PutRestoreItems(ctx context.Context, name string, items io.ReadSeeker) (Tally, error) {
	read := newSummed(items)
	if err := s.putNamed(ctx, name, s.layout.restoreItems, summedFromStart{read}); err != nil {
		return nil, err
	}
	return Tally{outcome.FileName: read.total()}, nil
}

// RestoreItems streams what became of the items of a restore, uncompressed. It returns ErrNotFound if that is not
// stored, and ErrChanged if it is not what the tally of PutRestoreItems has; it reads the file whole before that.
func (s *Store) RestoreItems(ctx context.Context, restore string, noted Tally) (io.ReadCloser, error) {
	if err := checkName(restore); err != nil {
		return nil, err
	}
	want, ok := noted[outcome.FileName]
	if !ok {
		return nil, fmt.Errorf("the list of what became of the items of restore %s: %w", restore, ErrNotFound)
	}
	key := s.layout.restoreItems(restore)
	body, err := s.open(ctx, key)
	if err != nil {
		return nil, err
	}
	checked := checkedBody{summed: newSummed(io.LimitReader(body, want.Size+1)), Closer: body, want: want, name: key}
	whole, err := checked.whole("")
	if err != nil {
		return nil, err
	}
	return s.gunzipped(key, whole)
}
