package plugintest

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// patience is the time that AwaitLog waits for a line.
const patience = 30 * time.Second

// LogLine is one line that the plugin has logged or printed.
type LogLine struct {
	// Level is hclog.NoLevel for a line that was printed, not logged.
	Level hclog.Level
	// Message is the message of the line, without its fields.
	Message string
	// Fields are the line's other values, as in JSON: "plugin" is the name of the implementation, "logSource" the file
	// and line in its source; the author defines the others.
	Fields map[string]any
	// Text is the line as it was written.
	Text string
}

// Logs returns the lines that have arrived so far, in order. The lines of a plugin in the test's own process have
// arrived when the call that wrote them returns; the lines of another process arrive later, see AwaitLog.
func (p *Plugin) Logs() []LogLine {
	p.logs.mu.Lock()
	defer p.logs.mu.Unlock()
	return slices.Clone(p.logs.lines)
}

// AwaitLog waits for the first line with that message and returns it. If it does not arrive, AwaitLog ends the test.
func (p *Plugin) AwaitLog(message string) LogLine {
	p.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		line, found, more := p.logs.find(message)
		if found {
			return line
		}
		select {
		case <-more:
		case <-p.t.Context().Done():
			p.t.Fatalf("the plugin did not log %q until the test ended", message)
		case <-deadline.C:
			p.t.Fatalf("the plugin did not log %q within %s", message, patience)
		}
	}
}

// logs holds the lines that a plugin has written.
type logs struct {
	mu    sync.Mutex
	lines []LogLine
	more  chan struct{} // closed and replaced when lines arrive
}

func newLogs() *logs { return &logs{more: make(chan struct{})} }

func (l *logs) add(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, parseLine(text))
	close(l.more)
	l.more = make(chan struct{})
}

// stream is one of the streams on which lines arrive. It is an io.Writer for one caller at a time.
type stream struct {
	to   *logs
	rest []byte // the beginning of an incomplete line
}

// Write implements io.Writer.
func (s *stream) Write(p []byte) (int, error) {
	s.rest = append(s.rest, p...)
	for {
		line, rest, ended := bytes.Cut(s.rest, []byte("\n"))
		if !ended {
			return len(p), nil
		}
		s.to.add(string(line))
		s.rest = bytes.Clone(rest)
	}
}

func (l *logs) find(message string) (line LogLine, found bool, more <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if line.Message == message {
			return line, true, nil
		}
	}
	return LogLine{}, false, l.more
}

// String returns all lines as they were written.
func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all strings.Builder
	for _, line := range l.lines {
		all.WriteString(line.Text + "\n")
	}
	return all.String()
}

func parseLine(text string) LogLine {
	printed := LogLine{Message: text, Text: text}
	var fields map[string]any
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		return printed
	}
	message, ok := fields["@message"].(string)
	if !ok {
		return printed
	}
	level, _ := fields["@level"].(string)
	delete(fields, "@message")
	delete(fields, "@level")
	return LogLine{Level: hclog.LevelFromString(level), Message: message, Fields: fields, Text: text}
}
