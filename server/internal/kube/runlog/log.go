package runlog

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/klauspost/compress/gzip"

	"github.com/cleat-dev/cleat/server/internal/kube/spool"
)

// Options configure the log of a run.
type Options struct {
	// Dir is the directory of the temporary file. Empty means the system's directory for temporary files.
	Dir string
	// Tee receives every line too. Its level decides which lines are written.
	Tee hclog.Logger
	// JSON selects JSON objects instead of logrus text.
	JSON bool
	// Now returns the time for each line.
	Now func() time.Time
}

func (o Options) format() func(line) []byte {
	if o.JSON {
		return formatJSON
	}
	return formatText
}

// Log is the log of one run. It writes lines to a compressed temporary file, which exists until Close, and to the
// server's log. If writing to the file fails, Reader returns the first error.
type Log struct {
	tee    hclog.Logger
	format func(line) []byte
	now    func() time.Time
	fields []any

	json bool
	own  []byte // fields, as they are in each line

	mu       sync.Mutex
	file     *spool.File
	gz       *gzip.Writer
	finished bool
	err      error

	line, message []byte // buffers for the lines of items
	second        time.Time
	stamp         []byte // second, formatted
}

// New starts a log. fields are key-value pairs, such as "backup" and "velero/nightly", that every line gets.
func New(opts Options, fields ...any) (*Log, error) {
	file, err := spool.New(opts.Dir, "a log")
	if err != nil {
		return nil, err
	}
	compressor, err := gzip.NewWriterLevel(file, gzip.BestSpeed)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set up the compression of the log: %w", err), file.Close())
	}
	l := &Log{tee: opts.Tee, format: opts.format(), now: opts.Now, fields: fields, json: opts.JSON, file: file,
		gz: compressor}
	l.own = ownFields(l.json, line{args: fields}.fields())
	return l, nil
}

// Logger returns a logger that writes to the log and to the server's log. After Reader or Close it writes only to the
// server's log.
func (l *Log) Logger() hclog.Logger {
	return &logger{to: l, level: l.tee.GetLevel(), args: l.fields}
}

// Reader ends the log and returns its compressed content, until Close. Reader may be called several times.
func (l *Log) Reader() (io.ReadSeeker, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finish()
	if l.err != nil {
		return nil, l.err
	}
	return io.NewSectionReader(l.file, 0, l.file.Size()), nil
}

// Close ends the log and removes its temporary file.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finish()
	return l.file.Close()
}

// finish writes the end of the gzip stream. Later lines are not part of the log.
func (l *Log) finish() {
	if l.finished {
		return
	}
	l.finished = true
	if err := l.gz.Close(); err != nil && l.err == nil {
		l.err = err
	}
}

// write writes one line to both logs.
func (l *Log) write(name string, level hclog.Level, msg string, args []any) {
	logNamed(l.tee, name, level, msg, args)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.finished || l.err != nil {
		return
	}
	_, l.err = l.gz.Write(l.format(line{time: l.now(), level: level, name: name, msg: msg, args: args}))
}

// logNamed writes one line to the server's log.
func logNamed(tee hclog.Logger, name string, level hclog.Level, msg string, args []any) {
	if name != "" {
		tee = tee.Named(name)
	}
	tee.Log(level, msg, args...)
}
