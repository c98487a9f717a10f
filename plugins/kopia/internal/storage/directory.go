package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/kopia/kopia/repo/blob"
	"github.com/kopia/kopia/repo/blob/filesystem"
)

// ErrNowhere is the error for a storage whose directory does not exist.
var ErrNowhere = errors.New("the directory does not exist")

// OpenDirectory opens a storage in a directory, which is created if create is set.
func OpenDirectory(ctx context.Context, path string, create bool) (blob.Storage, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && !create {
		return nil, ErrNowhere
	}
	st, err := filesystem.New(ctx, &filesystem.Options{Path: path, FileMode: 0o600, DirectoryMode: 0o700}, create)
	if err != nil {
		return nil, fmt.Errorf("open directory %s: %w", path, err)
	}
	return st, nil
}

// HasOthers reports whether a directory has files that are not those of a storage.
func HasOthers(path string) (bool, error) {
	entries, err := os.ReadDir(path)
	for _, entry := range entries {
		if entry.Name() != ".shards" {
			return true, err
		}
	}
	return false, err
}
