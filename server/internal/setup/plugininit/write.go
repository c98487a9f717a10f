package plugininit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Write writes the project that o describes into the folder dir, which it creates if necessary. It writes all files or
// none: it overwrites nothing, and the error names every existing file.
func Write(dir string, o Options) ([]File, error) {
	files, err := Files(o)
	if err != nil {
		return nil, err
	}
	var taken []string
	for _, file := range files {
		if _, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(file.Path))); err == nil {
			taken = append(taken, file.Path)
		}
	}
	if len(taken) > 0 {
		return nil, fmt.Errorf("%s already has %s; nothing is overwritten: choose another folder, or move them away", dir,
			strings.Join(taken, ", "))
	}
	var written []string
	for _, file := range files {
		path := filepath.Join(dir, filepath.FromSlash(file.Path))
		if err := create(path, file.Content); err != nil {
			for _, path := range written {
				err = errors.Join(err, os.Remove(path))
			}
			return nil, err
		}
		written = append(written, path)
	}
	return files, nil
}

// create writes a new file.
func create(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Close()); err != nil {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}
