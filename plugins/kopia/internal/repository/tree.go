package repository

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/kopia/kopia/fs"
	"github.com/kopia/kopia/repo"
	"github.com/kopia/kopia/snapshot"
	"github.com/kopia/kopia/snapshot/snapshotfs"
)

// Root returns the root directory of a snapshot, for a restore. Directories have the times that were stored: those of
// kopia have the newest time of all that is in them.
func Root(r repo.Repository, of *snapshot.Manifest) (fs.Directory, error) {
	if of.RootEntry.Type != snapshot.EntryTypeDirectory {
		return nil, fmt.Errorf("the root of snapshot %s is not a directory", of.ID)
	}
	return &directory{repository: r, DirEntry: of.RootEntry, escaped: of.Tags[NamesTag] == EscapedNames}, nil
}

// directory implements fs.Directory.
type directory struct {
	repository repo.Repository
	*snapshot.DirEntry
	escaped bool // names are stored by StoredName

	mu      sync.Mutex
	entries []fs.Entry // nil until they are read
}

func (d *directory) Name() string       { return d.DirEntry.Name }
func (d *directory) Size() int64        { return 0 }
func (d *directory) Mode() os.FileMode  { return os.ModeDir | os.FileMode(d.Permissions) }
func (d *directory) ModTime() time.Time { return d.DirEntry.ModTime.ToTime() }
func (d *directory) IsDir() bool        { return true }
func (d *directory) Sys() any           { return nil }
func (d *directory) Owner() fs.OwnerInfo {
	return fs.OwnerInfo{UserID: d.UserID, GroupID: d.GroupID}
}
func (d *directory) Device() fs.DeviceInfo            { return fs.DeviceInfo{} }
func (d *directory) LocalFilesystemPath() string      { return "" }
func (d *directory) Close()                           {}
func (d *directory) SupportsMultipleIterations() bool { return true }

// Child implements fs.Directory.
func (d *directory) Child(ctx context.Context, name string) (fs.Entry, error) {
	return fs.IterateEntriesAndFindChild(ctx, d, name)
}

// Iterate implements fs.Directory.
func (d *directory) Iterate(ctx context.Context) (fs.DirectoryIterator, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.entries == nil {
		if err := d.read(ctx); err != nil {
			return nil, fmt.Errorf("read the directory %q of the snapshot: %w", d.DirEntry.Name, err)
		}
	}
	return fs.StaticIterator(d.entries, nil), nil
}

func (d *directory) read(ctx context.Context) error {
	stored, err := d.repository.OpenObject(ctx, d.ObjectID)
	if err != nil {
		return err
	}
	defer func() { _ = stored.Close() }()
	parsed, err := ParseDirectory(stored)
	if err != nil {
		return err
	}
	d.entries = make([]fs.Entry, 0, len(parsed))
	for _, one := range parsed {
		if d.escaped {
			one.Name = FileName(one.Name)
		}
		if one.Type == snapshot.EntryTypeDirectory {
			d.entries = append(d.entries, &directory{repository: d.repository, DirEntry: one, escaped: d.escaped})
		} else {
			d.entries = append(d.entries, snapshotfs.EntryFromDirEntry(d.repository, one))
		}
	}
	return nil
}

// ParseDirectory returns what the object of a directory has in it. Of several entries of one name, the last one counts,
// as for kopia.
func ParseDirectory(from io.Reader) ([]*snapshot.DirEntry, error) {
	var parsed snapshot.DirManifest
	if err := json.NewDecoder(from).Decode(&parsed); err != nil {
		return nil, fmt.Errorf("it is not JSON of a directory: %w", err)
	}
	if want := "kopia:directory"; parsed.StreamType != want {
		return nil, fmt.Errorf("its stream is %.100q, want %q", parsed.StreamType, want)
	}
	at := make(map[string]int, len(parsed.Entries))
	all := parsed.Entries[:0]
	for _, one := range parsed.Entries {
		if one == nil {
			return nil, errors.New("it has an entry that is null")
		}
		if i, known := at[one.Name]; known {
			all[i] = one
			continue
		}
		at[one.Name] = len(all)
		all = append(all, one)
	}
	return all, nil
}
