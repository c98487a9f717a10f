package program

import (
	"bytes"
	"strings"
	"sync"
)

const (
	// maxLine is the size in bytes beyond which the rest of a line is dropped.
	maxLine = 1 << 20
	// keptLines is how many lines of the standard error are kept for the error of a command.
	keptLines = 30
)

// lineReader takes the lines of both outputs of a command.
type lineReader struct {
	line func([]byte) // may be nil

	mu   sync.Mutex
	last []string // of the standard error
}

func (r *lineReader) take(line []byte, keep bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	line = bytes.TrimPrefix(bytes.TrimSpace(line), []byte("\x1b[2K")) // erases a line of a terminal
	if len(line) == 0 {
		return
	}
	if keep {
		text := strings.ToValidUTF8(string(line), "\uFFFD")
		if failure, ok := parse(line); ok && failure.Type == "exit_error" {
			text = failure.Message
		}
		if r.last = append(r.last, text); len(r.last) > keptLines {
			r.last = r.last[1:]
		}
	}
	if r.line != nil {
		r.line(line)
	}
}

// splitter splits an output into lines.
type splitter struct {
	to   *lineReader
	keep bool
	rest []byte
}

// Write implements io.Writer.
func (s *splitter) Write(output []byte) (int, error) {
	size := len(output)
	for {
		line, more, whole := bytes.Cut(output, []byte("\n"))
		if len(s.rest) < maxLine {
			s.rest = append(s.rest, line...)
		}
		if !whole {
			return size, nil
		}
		s.flush()
		output = more
	}
}

// flush passes on an incomplete line.
func (s *splitter) flush() {
	s.to.take(s.rest, s.keep)
	s.rest = s.rest[:0]
}
