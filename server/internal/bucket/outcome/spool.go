package outcome

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/cleat-dev/cleat/server/internal/kube/spool"
)

// Spool is the file of a restore that is at work, on the disk of the server.
type Spool struct {
	*Writer
	file *spool.File
}

// NewSpool makes a file in a directory; the system's directory of temporary files if that is empty.
func NewSpool(dir string) (*Spool, error) {
	file, err := spool.New(dir, "what became of the items")
	if err != nil {
		return nil, err
	}
	return &Spool{Writer: NewWriter(file), file: file}, nil
}

// Items calls use for each item so far.
func (s *Spool) Items(use func(Item) error) error {
	if err := s.flush(); err != nil {
		return err
	}
	plain, err := gzip.NewReader(io.NewSectionReader(s.file, 0, s.file.Size()))
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, _, err = read(plain, use); errors.Is(err, io.ErrUnexpectedEOF) { // the restore goes on
		return nil
	}
	return err
}

// Finish writes the summary, and returns the file from its beginning; see Writer.Close.
func (s *Spool) Finish(notCalled map[string]int) (io.ReadSeeker, Summary, error) {
	summary, err := s.Close(notCalled)
	if err == nil {
		_, err = s.file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, summary, fmt.Errorf("write what became of the items: %w", err)
	}
	return s.file, summary, nil
}

// Remove removes the file.
func (s *Spool) Remove() {
	_ = s.file.Close() // what was written has been read, or is of no use
}
