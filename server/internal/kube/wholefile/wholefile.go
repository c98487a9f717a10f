// Package wholefile writes files that others see whole or not at all, also after a crash.
package wholefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// File is a file that is written under a temporary name in its directory.
type File struct {
	*os.File
	path string
}

// Create begins a file whose place is at path. It ends with Commit or Abort.
func Create(path string) (*File, error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".part-*") // has mode 0600
	if err != nil {
		return nil, err
	}
	return &File{File: file, path: path}, nil
}

// Commit puts the file in its place, with a mode, and replaces the file that is there.
func (f *File) Commit(mode fs.FileMode) error {
	err := errors.Join(f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), f.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Abort removes the file, unless Commit has renamed it.
func (f *File) Abort() {
	_ = f.Close()
	_ = os.Remove(f.Name()) // fails after Commit, which has renamed the file
}

// Write writes a file with some content.
func Write(path string, content []byte, mode fs.FileMode) error {
	file, err := Create(path)
	if err != nil {
		return err
	}
	defer file.Abort()
	if _, err := file.Write(content); err != nil {
		return err
	}
	return file.Commit(mode)
}
