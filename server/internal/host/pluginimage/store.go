package pluginimage

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/cleat-dev/cleat/server/internal/host/pluginlock"
	"github.com/cleat-dev/cleat/server/internal/kube/wholefile"
)

// recordName is the file of a plugin directory that maps images to their files. Hosts ignore names that begin with a
// dot.
const recordName = ".images.json"

// Installed is an image whose files are in a plugin directory.
type Installed struct {
	Image  string `json:"image"`
	Digest string `json:"digest"`
	Files  []File `json:"files"`
}

// Store is a plugin directory. One process changes it at a time.
type Store struct {
	dir    string
	lock   *os.File
	Images []Installed
}

// OpenStore opens a plugin directory, and creates it if it does not exist. It waits for another process that changes
// it.
func OpenStore(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("open the plugin directory: %w", err)
	}
	lock, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open the plugin directory: %w", err)
	}
	s := &Store{dir: dir, lock: lock}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the plugin directory %s: %w", dir, err), s.Close())
	}
	if err := s.clean(); err != nil {
		return nil, errors.Join(fmt.Errorf("remove what an interrupted command has left: %w", err), s.Close())
	}
	data, err := os.ReadFile(s.record())
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = s.parse(data)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read which images are installed: %w; remove %s to forget them", err, s.record()),
			s.Close())
	}
	return s, nil
}

// parse reads the record.
func (s *Store) parse(data []byte) error {
	if err := json.Unmarshal(data, &s.Images); err != nil {
		return err
	}
	for _, image := range s.Images {
		for _, file := range image.Files {
			if !filepath.IsLocal(filepath.FromSlash(file.Name)) {
				return fmt.Errorf("file %q of image %s is not below the directory", file.Name, image.Image)
			}
			if slices.ContainsFunc(strings.Split(file.Name, "/"), reserved) {
				return fmt.Errorf("no image has brought file %q", file.Name)
			}
		}
	}
	return nil
}

// Close lets other processes change the directory.
func (s *Store) Close() error { return s.lock.Close() }

func (s *Store) record() string { return filepath.Join(s.dir, recordName) }

// stages is the pattern of the names of stages.
const stages = ".pull-*"

// Stage returns a new directory in the store, in which a host finds nothing, and which everybody can read. The caller
// removes it; if the caller is killed, OpenStore does.
func (s *Store) Stage() (string, error) {
	dir, err := os.MkdirTemp(s.dir, stages)
	if err == nil {
		err = os.Chmod(dir, 0o755) //nolint:gosec // another user runs its programs
	}
	if err != nil {
		return "", fmt.Errorf("make a directory for the files of the image: %w", err)
	}
	return dir, nil
}

// clean removes the stages of processes that were killed. No process has a stage now, because the directory is locked.
func (s *Store) clean() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if left, _ := filepath.Match(stages, entry.Name()); left {
			err = errors.Join(err, os.RemoveAll(filepath.Join(s.dir, entry.Name())))
		}
	}
	return err
}

// CheckNew returns an error if an image cannot be added: because it is there, or a file is there that is not of it.
func (s *Store) CheckNew(image Installed) error {
	for _, other := range s.Images {
		switch {
		case other.Image == image.Image && s.complete(other):
			return fmt.Errorf("image %s is there already (%s); to replace it, remove it first", other.Image, other.Digest)
		case other.Image == image.Image:
			continue // what an interrupted command has left is completed
		}
		for _, file := range other.Files {
			if slices.ContainsFunc(image.Files, func(f File) bool { return f.Name == file.Name }) {
				return fmt.Errorf("file %s is of image %s; remove that first", file.Name, other.Image)
			}
		}
	}
	for _, file := range image.Files {
		sum, err := pluginlock.SumFile(s.path(file.Name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if sum != file.SHA256 {
			return fmt.Errorf("there is another file %s already; remove it first", s.path(file.Name))
		}
	}
	return nil
}

// complete reports whether all files of an image are there.
func (s *Store) complete(image Installed) bool {
	return !slices.ContainsFunc(image.Files, func(f File) bool {
		_, err := os.Lstat(s.path(f.Name))
		return err != nil
	})
}

// Add records an image and moves its files from the directory stage to the plugin directory. Each file is moved
// atomically, so a server never sees a part of it. After a crash, the same call completes the work. Programs of the
// image may have run meanwhile, so Add returns an error if a file has another content than at its extraction.
func (s *Store) Add(image Installed, stage string) error {
	for _, file := range image.Files {
		sum, err := pluginlock.SumFile(filepath.Join(stage, filepath.FromSlash(file.Name)))
		if err == nil && sum != file.SHA256 {
			err = fmt.Errorf("file %s was changed after it was taken out of the image", file.Name)
		}
		if err != nil {
			return err
		}
	}
	s.forget(image.Image)
	s.Images = append(s.Images, image)
	if err := s.write(); err != nil {
		return err
	}
	for _, file := range image.Files {
		if err := os.MkdirAll(filepath.Dir(s.path(file.Name)), 0o755); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(stage, filepath.FromSlash(file.Name)), s.path(file.Name)); err != nil {
			return err
		}
	}
	return s.lock.Sync()
}

// Remove deletes the files of an image, which is given by its name, its digest or one of its files, and returns it.
func (s *Store) Remove(what string) (Installed, error) {
	i := slices.IndexFunc(s.Images, func(image Installed) bool {
		return image.Image == what || image.Digest == what ||
			slices.ContainsFunc(image.Files, func(f File) bool { return f.Name == what })
	})
	if i < 0 {
		there := make([]string, 0, len(s.Images))
		for _, image := range s.Images {
			there = append(there, image.Image)
		}
		return Installed{}, fmt.Errorf("no image %s was added to %s; there are %q; other files of the directory are simply "+
			"deleted", what, s.dir, there)
	}
	image := s.Images[i]
	for _, file := range image.Files {
		if err := os.Remove(s.path(file.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Installed{}, fmt.Errorf("remove a file of image %s: %w", image.Image, err)
		}
	}
	s.forget(image.Image)
	return image, s.write()
}

func (s *Store) forget(image string) {
	s.Images = slices.DeleteFunc(s.Images, func(other Installed) bool { return other.Image == image })
}

func (s *Store) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

// write replaces the record.
func (s *Store) write() error {
	data, err := json.MarshalIndent(s.Images, "", "  ")
	if err != nil {
		return err
	}
	if err := wholefile.Write(s.record(), append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("record the images: %w", err)
	}
	return s.lock.Sync()
}
