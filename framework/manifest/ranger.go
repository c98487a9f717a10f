package manifest

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Ranger reads parts of a file.
type Ranger interface {
	// ReadRange returns length bytes from offset on. The caller closes it.
	ReadRange(ctx context.Context, offset, length int64) (io.ReadCloser, error)
	// Tail returns the last n bytes of the file, or the whole of a shorter one, and the size of the file.
	Tail(ctx context.Context, n int64) (content []byte, size int64, err error)
}

// NewRanger returns a Ranger for a file that is at hand, as an os.File or a bytes.Reader.
func NewRanger(file io.ReaderAt, size int64) Ranger { return readerAt{file, size} }

type readerAt struct {
	file io.ReaderAt
	size int64
}

// ReadRange implements Ranger.
func (r readerAt) ReadRange(_ context.Context, offset, length int64) (io.ReadCloser, error) {
	return io.NopCloser(io.NewSectionReader(r.file, offset, length)), nil
}

// Tail implements Ranger.
func (r readerAt) Tail(_ context.Context, n int64) ([]byte, int64, error) {
	content := make([]byte, min(n, r.size))
	if _, err := r.file.ReadAt(content, r.size-int64(len(content))); err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, fmt.Errorf("the last %d of %d bytes: %w", len(content), r.size, err)
	}
	return content, r.size, nil
}
