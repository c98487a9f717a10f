package runlog

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Options say where and how the log of an operation is written.
type Options struct {
	// Dir holds the temporary file; empty means the system's.
	Dir string
	// Tee gets every line as well, and decides by its level which lines are written at all.
	Tee hclog.Logger
	// JSON writes the lines as JSON objects in place of logrus text.
	JSON bool
	// Now is the clock of the lines.
	Now func() time.Time
}

// Log is the log of one running operation. It keeps the lines in a gzipped temporary file until
// Close. A line that cannot be written there is still in the server's log; the first failure is
// what Reader answers.
type Log struct {
	tee    hclog.Logger
	format func(line) []byte
	now    func() time.Time
	fields []any

	mu       sync.Mutex
	file     *os.File
	gz       *gzip.Writer
	finished bool
	err      error
}

// New starts a log whose lines all carry fields, which are key, value pairs such as "backup",
// "velero/nightly".
func New(opts Options, fields ...any) (*Log, error) {
	file, err := os.CreateTemp(opts.Dir, "oplog-*.gz")
	if err != nil {
		return nil, fmt.Errorf("create the temporary file of an operation's log: %w", err)
	}
	l := &Log{
		tee:    opts.Tee,
		format: formatText,
		now:    opts.Now,
		fields: fields,
		file:   file,
		gz:     gzip.NewWriter(file),
	}
	if opts.JSON {
		l.format = formatJSON
	}
	return l, nil
}

// Logger writes to the log and to the server's log. It stays usable after Reader and Close: its
// lines then go to the server's log only.
func (l *Log) Logger() hclog.Logger {
	return &logger{log: l, level: l.tee.GetLevel(), args: l.fields}
}

// Reader ends the log and returns it from its first line on, gzipped. The caller closes it. It may
// be called more than once.
func (l *Log) Reader() (io.ReadCloser, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finish()
	if l.err != nil {
		return nil, fmt.Errorf("write the operation's log to %s: %w", l.file.Name(), l.err)
	}
	r, err := os.Open(l.file.Name())
	if err != nil {
		return nil, fmt.Errorf("read the operation's log: %w", err)
	}
	return r, nil
}

// Close ends the log and removes its temporary file.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finish()
	return errors.Join(l.file.Close(), os.Remove(l.file.Name()))
}

// finish writes the end of the gzip stream; what comes later is not part of the log.
func (l *Log) finish() {
	if l.finished {
		return
	}
	l.finished = true
	if err := l.gz.Close(); err != nil && l.err == nil {
		l.err = err
	}
}

// write puts one line into both logs.
func (l *Log) write(name string, level hclog.Level, msg string, args []any) {
	tee := l.tee
	if name != "" {
		tee = tee.Named(name)
	}
	tee.Log(level, msg, args...)

	l.mu.Lock()
	defer l.mu.Unlock()
	if l.finished || l.err != nil {
		return
	}
	_, l.err = l.gz.Write(l.format(line{time: l.now(), level: level, name: name, msg: msg, args: args}))
}
