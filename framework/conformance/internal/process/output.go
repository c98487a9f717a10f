package process

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// eachLine calls handle for each line of r that is not empty. Long lines are cut.
func eachLine(r io.Reader, handle func(line string, cut bool)) {
	reader := bufio.NewReaderSize(r, maxLine)
	for {
		line, more, err := reader.ReadLine()
		if text := strings.TrimRight(string(line), "\r"); text != "" {
			handle(text, more)
		}
		for more && err == nil {
			_, more, err = reader.ReadLine()
		}
		if err != nil {
			return
		}
	}
}

// tail keeps the last lines of a process, or the first lines of the traceback of a Go program.
type tail struct {
	mu      sync.Mutex
	lines   []string
	crashed bool
}

// add records a line and reports whether it is part of a traceback.
func (t *tail) add(line string) (crashed bool) {
	const enough = 12
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.crashed && (strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") ||
		strings.HasPrefix(line, "SIGQUIT: ")) {
		t.crashed, t.lines = true, nil
	}
	if len(t.lines) == enough {
		if t.crashed {
			return true
		}
		t.lines = t.lines[1:]
	}
	t.lines = append(t.lines, fmt.Sprintf("%.300s", line))
	return t.crashed
}

func (t *tail) last() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.lines)
}

// Output records what the processes of a target have written.
type Output struct {
	mu       sync.Mutex
	onStdout string // the first line after a handshake
	lines    int    // lines on stderr
	odd      string // the first line on stderr that is not a log line
}

func (o *Output) printed(line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.onStdout == "" {
		o.onStdout = line
	}
}

func (o *Output) logged(line string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines++
	if o.odd == "" && !isLogLine(line) {
		o.odd = line
	}
}

// isLogLine reports whether a line is a JSON object with a message and a level, which a host understands.
func isLogLine(line string) bool {
	var fields struct {
		Message *string `json:"@message"`
		Plain   *string `json:"msg"`
		Level   *string `json:"@level"`
		Other   *string `json:"level"`
	}
	err := json.Unmarshal([]byte(line), &fields)
	return err == nil && (fields.Message != nil || fields.Plain != nil) && (fields.Level != nil || fields.Other != nil)
}

// OnStdout returns the first line that was written to stdout after a handshake, or "".
func (o *Output) OnStdout() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.onStdout
}

// OnStderr returns the number of lines on stderr, and the first that is not a log line, or "".
func (o *Output) OnStderr() (lines int, odd string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lines, o.odd
}
