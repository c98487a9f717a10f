package backups

import (
	"fmt"
	"io"
	"sync"

	"github.com/cleat-dev/cleat/server/internal/control/policy"
	"github.com/cleat-dev/cleat/server/internal/kube/spool"
)

const (
	// maxWritten bounds what one manifest writer writes about one backup. A list of a million items has some 300 MB.
	maxWritten = 1 << 30
	// maxArtifacts bounds the files of one manifest writer, each of which is open until it is stored.
	maxArtifacts = 64
)

// shelf keeps artifacts of manifest writers in temporary files until they are stored. It is safe for concurrent use.
type shelf struct {
	dir string // "" for the system's directory of temporary files

	mu    sync.Mutex
	files map[policy.Artifact]*spool.File
	count map[string]int   // of files by writer
	size  map[string]int64 // of all files by writer
}

func newShelf(dir string) *shelf {
	return &shelf{dir: dir, files: map[policy.Artifact]*spool.File{}, count: map[string]int{}, size: map[string]int64{}}
}

// keep implements policy.Keep.
func (s *shelf) keep(artifact policy.Artifact, content io.Reader) error {
	file, err := s.create(artifact)
	if err != nil {
		return err
	}
	_, err = io.Copy(&shelved{file: file, of: s, writer: artifact.Writer}, content)
	return err
}

func (s *shelf) create(artifact policy.Artifact) (*spool.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count[artifact.Writer]++; s.count[artifact.Writer] > maxArtifacts {
		return nil, fmt.Errorf("it is the writer's file %d, at most %d are kept", s.count[artifact.Writer], maxArtifacts)
	}
	file, err := spool.New(s.dir, artifact.Name)
	if err != nil {
		return nil, err
	}
	s.files[artifact] = file
	return file, nil
}

// open returns the content of an artifact that is kept.
func (s *shelf) open(artifact policy.Artifact) (io.ReadSeeker, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	file := s.files[artifact]
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read the temporary file of %s: %w", artifact.Name, err)
	}
	return file, nil
}

// close removes all files.
func (s *shelf) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, file := range s.files {
		_ = file.Close() // what was written has been read, or is of no use
	}
	s.files = nil
}

// shelved is a file of a shelf while it is written.
type shelved struct {
	file   *spool.File
	of     *shelf
	writer string
}

// Write implements io.Writer.
func (f *shelved) Write(p []byte) (int, error) {
	f.of.mu.Lock()
	f.of.size[f.writer] += int64(len(p))
	size := f.of.size[f.writer]
	f.of.mu.Unlock()
	if size > maxWritten {
		return 0, fmt.Errorf("the writer's files have more than %d bytes", maxWritten)
	}
	return f.file.Write(p)
}
