package archive

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
)

// source counts the compressed bytes and keeps the error of the stream, so that a broken connection is not reported as
// a broken archive.
type source struct {
	ctx  context.Context
	r    io.Reader
	read int64
	err  error
}

func (s *source) Read(p []byte) (int, error) {
	if err := context.Cause(s.ctx); err != nil {
		s.err = err
		return 0, err
	}
	n, err := s.r.Read(p)
	s.read += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// explain turns an error of gzip or tar into one that an operator can act on.
func (s *source) explain(err error, where string) error {
	var invalid flate.CorruptInputError
	var internal flate.InternalError
	switch {
	case s.err != nil:
		return fmt.Errorf("read the archive, %s: %w", where, s.err)
	case errors.Is(err, ErrLimit):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fmt.Errorf("%w %s: it ends after %d compressed bytes, in the middle of its data", ErrTruncated, where, s.read)
	case errors.Is(err, gzip.ErrChecksum):
		return fmt.Errorf("%w %s: the checksum does not match the data, so bytes were changed since it was written",
			ErrCorrupt, where)
	case errors.Is(err, gzip.ErrHeader), errors.As(err, &invalid), errors.As(err, &internal):
		return fmt.Errorf("%w %s: the compressed data is invalid near byte %d", ErrCorrupt, where, s.read)
	case errors.Is(err, tar.ErrHeader), errors.Is(err, tar.ErrFieldTooLong), errors.Is(err, tar.ErrInsecurePath):
		return fmt.Errorf("%w %s: the header of the next tar entry is invalid", ErrCorrupt, where)
	default:
		// An error of the spool file.
		return fmt.Errorf("unpack the archive, %s: %w", where, err)
	}
}

// meter counts the unpacked bytes and returns an error when there are too many.
type meter struct {
	r      io.Reader
	source *source
	limits Limits
	read   int64
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.read += int64(n)
	if m.read > m.limits.TotalBytes {
		return 0, fmt.Errorf("%w: more than %d bytes unpacked", ErrLimit, m.limits.TotalBytes)
	}
	return n, err
}

func (m *meter) explain(err error, where string) error { return m.source.explain(err, where) }
