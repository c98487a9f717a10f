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

	"github.com/cleat-dev/cleat/server/internal/kube/wholefile"
)

// credentials stores the contents of Secrets as files, because object store plugins read credentials from files. A file
// is named after a hash of its content, so changed credentials change the plugin's configuration, and unchanged ones
// are not written again.
type credentials struct {
	dir string
	mu  sync.Mutex
}

// file returns the path of a file with the given content, for one location. Older files of the location remain until
// remove is called, because a plugin that restarts may need them.
func (c *credentials) file(namespace, location string, content []byte) (string, error) {
	sum := sha256.Sum256(content)
	dir := c.locationDir(namespace, location)
	path := filepath.Join(dir, hex.EncodeToString(sum[:8]))
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	err := os.MkdirAll(dir, 0o750)
	if err == nil {
		err = wholefile.Write(path, content, 0o640) // readable only by the server's user and group, as in Velero
	}
	if err != nil {
		return "", fmt.Errorf("write the credentials file: %w", err)
	}
	return path, nil
}

func (c *credentials) locationDir(namespace, location string) string {
	return filepath.Join(c.dir, namespace, location)
}

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
