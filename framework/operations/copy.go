package operations

import (
	"io"
	"time"
)

// bytesUnits are the units of the progress that writers and readers report.
const bytesUnits = "bytes"

// Writer returns a writer that passes everything on to w and adds the bytes that w has taken to the progress. total is
// the number of bytes of the whole operation, 0 if it is not known; several writers and readers of an operation add up.
// A write fails with the context's error once the work's context has ended, so a copy needs no other check for
// cancellation.
func (r *Run) Writer(w io.Writer, total int64) io.Writer {
	r.countBytes(total)
	return writer{w, r}
}

// Reader returns a reader that reads from source and adds the bytes that it has read to the progress, as Writer does.
func (r *Run) Reader(source io.Reader, total int64) io.Reader {
	r.countBytes(total)
	return reader{source, r}
}

type writer struct {
	w   io.Writer
	run *Run
}

func (w writer) Write(content []byte) (int, error) {
	if err := w.run.ended(); err != nil {
		return 0, err
	}
	n, err := w.w.Write(content)
	w.run.addBytes(n)
	return n, err
}

type reader struct {
	source io.Reader
	run    *Run
}

func (r reader) Read(buffer []byte) (int, error) {
	if err := r.run.ended(); err != nil {
		return 0, err
	}
	n, err := r.source.Read(buffer)
	r.run.addBytes(n)
	return n, err
}

// countBytes makes bytes the units of the progress. Bytes that have been reported before still count.
func (r *Run) countBytes(total int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.progress.Units != bytesUnits {
		r.progress.Units, r.progress.NCompleted = bytesUnits, 0
	}
	r.progress.NTotal = max(total, 0)
}

func (r *Run) addBytes(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress.NCompleted += int64(max(n, 0))
	r.progress.Updated = time.Now().UTC()
}
