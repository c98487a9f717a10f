package location

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// credentials stores the contents of Secrets as files, because object store plugins read credentials from files. A file is
// named after a hash of its content, so changed credentials change the plugin's configuration, and unchanged ones are not
// written again.
type credentials struct {
	dir string
	mu  sync.Mutex
}

// file returns the path of a file with the given content, for one location. Older files of the location remain until remove is
// called, because a plugin that restarts may need them.
func (c *credentials) file(namespace, location string, content []byte) (string, error) {
	sum := sha256.Sum256(content)
	dir := c.locationDir(namespace, location)
	path := filepath.Join(dir, hex.EncodeToString(sum[:8]))
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := writeFile(dir, path, content); err != nil {
		return "", fmt.Errorf("write the credentials file: %w", err)
	}
	return path, nil
}

// writeFile atomically creates the file at path. Only the server's user can read it.
func writeFile(dir, path string, content []byte) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(dir, ".new-*") // has mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary.Name())
		}
	}()
	_, err = temporary.Write(content)
	if err = errors.Join(err, temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}

func (c *credentials) locationDir(namespace, location string) string {
	return filepath.Join(c.dir, namespace, location)
}

// remove removes all files of a location.
func (c *credentials) remove(namespace, location string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return os.RemoveAll(c.locationDir(namespace, location))
}

// removeAll removes the files of all locations, and nothing else that is in the directory.
func (c *credentials) removeAll() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	namespaces, err := os.ReadDir(c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, namespace := range namespaces {
		if namespace.IsDir() {
			err = errors.Join(err, os.RemoveAll(filepath.Join(c.dir, namespace.Name())))
		}
	}
	return err
}
