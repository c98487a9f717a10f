package sealed

import (
	"fmt"
	"io"

	objectstorev1 "github.com/cleat-dev/cleat/framework/objectstore/v1"
)

// windowSize is how much of a stored object is read at once: a header of the usual size and four chunks.
const windowSize = 256<<10 + 4<<10

// window is a stored object of which a part is in memory. It is used by one goroutine at a time.
type window struct {
	// read asks the store behind for a range.
	read func(offset, length int64) (*objectstorev1.GetObjectOutput, error)
	reading

	size    int64 // of the object
	offset  int64 // of content
	content []byte
}

// open reads the beginning of the object, and returns its size; -1 if the store behind has no ranges.
func (w *window) open() (size int64, err error) {
	output, err := w.read(0, windowSize)
	if err != nil {
		return 0, err
	}
	defer func() { _ = output.Body.Close() }() // only read from
	if output.Part == nil {
		return -1, nil
	}
	w.size = output.Part.Size
	if err := w.fill(output, 0); err != nil {
		return 0, err
	}
	w.begins(w.content)
	return w.size, nil
}

// ReadAt implements io.ReaderAt.
func (w *window) ReadAt(p []byte, offset int64) (n int, err error) {
	for n < len(p) {
		if offset >= w.size {
			return n, io.EOF
		}
		if offset < w.offset || offset >= w.offset+int64(len(w.content)) {
			if err := w.move(offset); err != nil {
				w.err = err
				return n, err
			}
		}
		copied := copy(p[n:], w.content[offset-w.offset:])
		n, offset = n+copied, offset+int64(copied)
	}
	return n, nil
}

// move reads the content from an offset on.
func (w *window) move(offset int64) error {
	output, err := w.read(offset, windowSize)
	if err != nil {
		return err
	}
	defer func() { _ = output.Body.Close() }() // only read from
	if output.Part == nil || output.Part.Offset != offset || output.Part.Size != w.size {
		return fmt.Errorf("the object was replaced while it was read, try again")
	}
	return w.fill(output, offset)
}

func (w *window) fill(output *objectstorev1.GetObjectOutput, offset int64) error {
	want := min(windowSize, w.size-offset)
	if cap(w.content) < windowSize {
		w.content = make([]byte, 0, min(windowSize, w.size))
	}
	w.content, w.offset = w.content[:want], offset
	if _, err := io.ReadFull(output.Body, w.content); err != nil {
		return fmt.Errorf("read the bytes from %d on: %w", offset, err)
	}
	return nil
}
