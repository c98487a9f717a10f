package store

import (
	"io"
	"sync"
)

// heldBody is a pipe from the writer of the archive to the object store. Its reader sees the end only after finish, so
// that the object cannot become visible before.
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

// Write blocks until the object store has read p.
func (b *heldBody) Write(p []byte) (int, error) { return b.writer.Write(p) }

// Read is called by the object store. After a failure it never returns io.EOF, so that a failed archive cannot be taken
// for a complete one.
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

// finish lets the reader see the end.
func (b *heldBody) finish() { _ = b.writer.Close() } // a pipe's Close returns nil

// fail ends both sides with err, or with the error of an earlier failure. It has no effect after the reader has seen the
// end.
func (b *heldBody) fail(err error) {
	b.mu.Lock()
	if b.failure == nil {
		b.failure = err
	}
	err = b.failure
	b.mu.Unlock()
	_ = b.reader.CloseWithError(err) // unblocks both sides; always returns nil
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
