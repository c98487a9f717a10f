package store

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/cleat-dev/cleat/server/internal/kube/spool"
)

// pipe is the archive between its writer and the object store: a file that the object store reads while it is written.
// So the writer never waits for the object store, which can read the archive again from its start when an upload has
// failed. The reader sees the end only after finish, so that the object cannot become visible before.
type pipe struct {
	file *spool.File

	mu       sync.Mutex
	changed  *sync.Cond // size, finished or failure
	size     int64
	finished bool
	failure  error
	offset   int64 // of the reader
	sawEnd   bool  // the reader has, since it has last begun
}

// newPipe makes the file in dir, "" for the system's directory of temporary files.
func newPipe(dir string) (*pipe, error) {
	file, err := spool.New(dir, "an archive")
	if err != nil {
		return nil, err
	}
	s := &pipe{file: file}
	s.changed = sync.NewCond(&s.mu)
	return s, nil
}

// Write implements io.Writer. It is called by one goroutine only.
func (s *pipe) Write(p []byte) (int, error) {
	if err := s.writable(); err != nil {
		return 0, err
	}
	n, err := s.file.Write(p)
	s.mu.Lock()
	s.size += int64(n)
	s.changed.Broadcast()
	s.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("%w; the disk has to have space for the archives of all backups in progress", err)
		s.fail(err)
	}
	return n, err
}

func (s *pipe) writable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil && s.finished {
		return errEnded
	}
	return s.failure
}

// Read implements io.Reader for the object store. It waits for the writer. After a failure it never returns io.EOF, so
// that a failed archive cannot be taken for a complete one.
func (s *pipe) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.failure == nil && s.offset == s.size && !s.finished {
		s.changed.Wait()
	}
	switch {
	case s.failure != nil:
		return 0, s.failure
	case s.offset == s.size:
		s.sawEnd = true
		return 0, io.EOF
	}
	n, err := s.file.ReadAt(p[:min(int64(len(p)), s.size-s.offset)], s.offset)
	s.offset += int64(n)
	if err != nil {
		return n, err
	}
	return n, nil
}

// Seek implements io.Seeker. It returns to the start only.
func (s *pipe) Seek(offset int64, whence int) (int64, error) {
	if offset != 0 || whence != io.SeekStart {
		return 0, errors.New("the archive can be read from its start only")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset, s.sawEnd = 0, false
	return 0, nil
}

// written returns how many bytes were written.
func (s *pipe) written() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}

// finish lets the reader see the end.
func (s *pipe) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished = true
	s.changed.Broadcast()
}

// fail ends both sides with err, or with the error of an earlier failure.
func (s *pipe) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil {
		s.failure = err
	}
	s.changed.Broadcast()
}

// ended reports whether the object store has read the archive to its regular end.
func (s *pipe) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sawEnd
}

// failed reports whether fail was called.
func (s *pipe) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure != nil
}

// close removes the file. Nothing reads or writes it any more.
func (s *pipe) close() {
	_ = s.file.Close() // the written bytes have been read, or are useless
}
