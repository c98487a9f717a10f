package output

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

const (
	// maxLine is the longest line that is kept whole, in bytes; go-plugin's own limit.
	maxLine = 64 << 10
	// tailLines is the number of lines that are remembered, and tailWidth the length of each, in bytes.
	tailLines = 20
	tailWidth = 512
)

// EachLine calls handle for every line of r without its line end, until r ends. A line longer than maxLine is
// truncated, and a note at its end says so. handle must not keep the slice. progress, if it is not nil, counts the
// bytes handled.
func EachLine(r io.Reader, progress *atomic.Int64, handle func(line []byte, cut bool)) {
	reader := bufio.NewReaderSize(r, maxLine)
	for {
		line, err := reader.ReadSlice('\n')
		size, cut := len(line), false
		if errors.Is(err, bufio.ErrBufferFull) {
			head := bytes.Clone(line)
			var rest int
			rest, err = discardLine(reader)
			size += rest
			if err == nil {
				rest-- // the line end
			}
			line = head
			if cut = rest > 0; cut {
				line = fmt.Appendf(head, "... (%d more bytes)", rest)
			}
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) > 0 {
			handle(line, cut)
		}
		if progress != nil {
			progress.Add(int64(size))
		}
		if err != nil {
			return
		}
	}
}

// discardLine skips to the end of the line and returns the number of bytes skipped.
func discardLine(reader *bufio.Reader) (int, error) {
	skipped := 0
	for {
		part, err := reader.ReadSlice('\n')
		skipped += len(part)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return skipped, err
		}
	}
}

// LineWriter splits its input into lines for Handle.
type LineWriter struct {
	mu      sync.Mutex
	pending []byte
	Handle  func(line []byte)
}

// Write never fails.
func (w *LineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = append(w.pending, p...)
	for {
		end := bytes.IndexByte(w.pending, '\n')
		if end < 0 && len(w.pending) < maxLine {
			return len(p), nil
		}
		if end < 0 {
			end = len(w.pending)
		}
		if line := bytes.TrimRight(w.pending[:end], "\r"); len(line) > 0 {
			w.Handle(line)
		}
		w.pending = append(w.pending[:0], w.pending[min(end+1, len(w.pending)):]...)
	}
}

// tail remembers the last lines of a process, or once a Go crash has begun, the first lines of that, because the
// message is at its top.
type tail struct {
	mu      sync.Mutex
	crashed bool
	lines   []string
}

// add parses a line and keeps it, unless it is a structured line of the lowest levels. Lines of a crash are errors.
func (t *tail) add(line []byte) Line {
	t.mu.Lock()
	defer t.mu.Unlock()
	parsed := parseLogLine(line)
	if parsed.structured && parsed.Level <= hclog.Debug {
		return parsed
	}
	text := shorten.Text(parsed.String(), tailWidth)
	switch {
	case !t.crashed && StartsCrash(text):
		t.crashed, t.lines = true, []string{text}
	case len(t.lines) < tailLines:
		t.lines = append(t.lines, text)
	case !t.crashed:
		t.lines = append(t.lines[1:], text)
	}
	if t.crashed && !parsed.structured {
		parsed.Level = hclog.Error
	}
	return parsed
}

func (t *tail) last() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.lines)
}
