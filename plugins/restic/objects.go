package restic

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cleat-dev/cleat/framework"
	objectstorev1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
)

// objects are the files of a repository. Keys are relative to it, with slashes.
type objects interface {
	exists(ctx context.Context, key string) (bool, error)
	// list returns the names of the files in a folder ("locks") that begin with prefix.
	list(ctx context.Context, folder, prefix string) ([]string, error)
	remove(ctx context.Context, key string) error
}

// bucket is a repository in S3.
type bucket struct {
	store        objectstorev1.ObjectStore
	name, folder string
}

func (b *bucket) exists(ctx context.Context, key string) (bool, error) {
	found, err := b.store.ObjectExists(ctx, &objectstorev1.ObjectExistsInput{Bucket: b.name, Key: b.folder + "/" + key})
	if err != nil {
		return false, err
	}
	return found.Exists, nil
}

func (b *bucket) list(ctx context.Context, folder, prefix string) ([]string, error) {
	whole := b.folder + "/" + folder + "/"
	listed, err := b.store.ListObjects(ctx, &objectstorev1.ListObjectsInput{Bucket: b.name, Prefix: whole + prefix})
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(listed.Keys))
	for _, key := range listed.Keys {
		names = append(names, key[len(whole):])
	}
	return names, nil
}

func (b *bucket) remove(ctx context.Context, key string) error {
	return b.store.DeleteObject(ctx, &objectstorev1.DeleteObjectInput{Bucket: b.name, Key: b.folder + "/" + key})
}

// directory is a repository on a file system.
type directory struct{ bucket, folder string }

func (d *directory) exists(_ context.Context, key string) (bool, error) {
	if _, err := os.Stat(d.bucket); err != nil { // as when a file system is not mounted
		return false, framework.Unavailable("the bucket of the location: %w", err)
	}
	_, err := os.Stat(filepath.Join(d.folder, filepath.FromSlash(key)))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (d *directory) list(_ context.Context, folder, prefix string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(d.folder, folder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if name := entry.Name(); len(name) >= len(prefix) && name[:len(prefix)] == prefix {
			names = append(names, name)
		}
	}
	return names, nil
}

func (d *directory) remove(_ context.Context, key string) error {
	err := os.Remove(filepath.Join(d.folder, filepath.FromSlash(key)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
