// Package stored reads the manifests of backups in a bucket. For a backup without a manifest, it makes one from the
// archive.
package stored

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cleat-dev/cleat/framework/manifest"
	servermanifest "github.com/cleat-dev/cleat/server/internal/bucket/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/reference"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
)

// Backups has the files of backups, as store.Store does.
type Backups interface {
	Artifact(ctx context.Context, backup, name string) (io.ReadCloser, error)
	BackupContents(ctx context.Context, name string) (io.ReadCloser, error)
}

var _ Backups = (*store.Store)(nil)

// Manifest is the manifest of a stored backup. The caller must call Close.
type Manifest struct {
	*manifest.Reader
	// Made is set if the backup has no manifest, so that it was made from the archive.
	Made bool

	file io.Closer
}

// Close releases the manifest.
func (m *Manifest) Close() error { return m.file.Close() }

// Options say how a manifest is made for a backup that has none.
type Options struct {
	FormatVersion string // of the backup; may be empty if it is not known
	Table         *reference.Table
	Dir           string // of temporary files; "" for the system's
}

// Open returns the manifest of a backup. It makes one in a temporary file from the archive of a backup that has none:
// one of Velero, or one whose manifest could not be written. It returns store.ErrNotFound if there is no archive
// either.
func Open(ctx context.Context, in Backups, backup manifest.Backup, options Options) (*Manifest, error) {
	file, err := in.Artifact(ctx, backup.Name, manifest.FileName)
	made := errors.Is(err, store.ErrNotFound)
	if made {
		file, err = fromArchive(ctx, in, backup, options)
	}
	if err != nil {
		return nil, err
	}
	reader, err := manifest.NewReader(file)
	if err != nil {
		_ = file.Close() // only read from
		return nil, fmt.Errorf("read the manifest of backup %s: %w", backup.Name, err)
	}
	return &Manifest{Reader: reader, Made: made, file: file}, nil
}

// fromArchive returns a temporary file with the manifest that the archive gives.
func fromArchive(
	ctx context.Context, in Backups, backup manifest.Backup, options Options,
) (_ io.ReadCloser, err error) {
	archive, err := in.BackupContents(ctx, backup.Name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = archive.Close() }() // only read from
	file, err := os.CreateTemp(options.Dir, "cleat-manifest-*")
	if err != nil {
		return nil, fmt.Errorf("make a temporary file, see --scratch-dir: %w", err)
	}
	_ = os.Remove(file.Name()) // fails on systems that keep open files; Close removes it there
	made := &temporary{file}
	header := manifest.Header{FormatVersion: options.FormatVersion, Backup: backup}
	err = servermanifest.FromArchive(ctx, archive, header, options.Table, file, manifest.Options{Dir: options.Dir})
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, made.Close())
	}
	return made, nil
}

// temporary is a file that is removed when it is closed.
type temporary struct{ *os.File }

// Close implements io.Closer.
func (t *temporary) Close() error {
	err := t.File.Close()
	if removed := os.Remove(t.Name()); removed != nil && !errors.Is(removed, os.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	return err
}
