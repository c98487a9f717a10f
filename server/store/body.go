package store

import (
	"io"
	"sync"
)

// heldBody is the archive between its writer and the object store: a pipe whose end is held back until
// finish, so that the object cannot become visible before.
type heldBody struct {
	reader *io.PipeReader
	writer *io.PipeWriter

	mu      sync.Mutex
	sawEnd  bool
	failure error
}

func newHeldBody() *heldBody {
	reader, writer := io.Pipe()
	return &heldBody{reader: reader, writer: writer}
}

// Write blocks until the object store has taken p.
func (b *heldBody) Write(p []byte) (int, error) { return b.writer.Write(p) }

// Read is the object store's side. After a failure it never reports a regular end, so that a failed
// archive cannot be taken for a whole one.
func (b *heldBody) Read(p []byte) (int, error) {
	n, err := b.reader.Read(p)
	if err == nil {
		return n, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failure != nil {
		return n, b.failure
	}
	if err == io.EOF {
		b.sawEnd = true
	}
	return n, err
}

// finish lets the object store see the end.
func (b *heldBody) finish() { _ = b.writer.Close() } // a pipe's Close returns nil

// fail ends both sides with err; the first failure counts. After the object store has seen the end it
// changes nothing.
func (b *heldBody) fail(err error) {
	b.mu.Lock()
	if b.failure == nil {
		b.failure = err
	}
	err = b.failure
	b.mu.Unlock()
	_ = b.reader.CloseWithError(err) // wakes both sides; a pipe's close returns nil
}

// ended reports whether the object store has read the archive to its regular end.
func (b *heldBody) ended() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sawEnd
}

// failed reports whether fail was called.
func (b *heldBody) failed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failure != nil
}
