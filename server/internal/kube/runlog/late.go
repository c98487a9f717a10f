package runlog

import (
	"bytes"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/klauspost/compress/gzip"
)

const (
	// latePause is how long a line waits until it is stored.
	latePause = 5 * time.Second
	// lateShare bounds the time that the storing of lines takes: no more than one part of so many.
	lateShare = 20
	// maxLate bounds the lines that wait, in bytes. Those over it are in the server's log only.
	maxLate = 8 << 20
)

// Late has the lines of a run that come after its log was stored. It keeps them in memory, compressed, until Store adds
// them to the stored log. They go to the server's log too. It is safe for concurrent use.
type Late struct {
	options Options
	fields  []any
	waits   func()

	storing sync.Mutex
	taken   []byte // by Store, which has failed; guarded by storing

	mu       sync.Mutex
	lines    bytes.Buffer // compressed
	gz       *gzip.Writer // nil if there are none
	size     int          // of lines, as they were written
	leftOut  int          // lines
	earliest time.Time    // when the lines may be stored
	due      time.Time    // when they are to be stored; zero if there are none
}

// NewLate returns a Late without lines. fields are the fields of New. waits is called when a line waits and none did
// before; it must not block.
func NewLate(options Options, waits func(), fields ...any) *Late {
	return &Late{options: options, waits: waits, fields: fields}
}

// Logger returns a logger that writes to l and to the server's log.
func (l *Late) Logger() hclog.Logger {
	return &logger{to: l, level: l.options.Tee.GetLevel(), args: l.fields}
}

// Due returns when Store is to be called, zero if no line waits.
func (l *Late) Due() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.due
}

// Store passes the lines that wait to add, as a gzip stream. If add fails, the next call passes the same ones again,
// before all others: add finds out whether it has stored them nevertheless.
func (l *Late) Store(add func(lines io.ReadSeeker) error) error {
	l.storing.Lock()
	defer l.storing.Unlock()
	if err := l.storeTaken(add); err != nil {
		return err
	}
	l.taken = l.take()
	return l.storeTaken(add)
}

// StoreAll passes all lines that wait to store in one call, which is made even if there are none. If store fails, the next
// call passes them again, with those that have come meanwhile.
func (l *Late) StoreAll(store func(lines io.ReadSeeker) error) error {
	l.storing.Lock()
	defer l.storing.Unlock()
	l.taken = append(l.taken, l.take()...) // a gzip stream may have several members
	if l.taken == nil {
		return store(bytes.NewReader(nil))
	}
	return l.storeTaken(store)
}

// storeTaken stores the lines that were taken, if there are some.
func (l *Late) storeTaken(add func(lines io.ReadSeeker) error) error {
	if l.taken == nil {
		return nil
	}
	began := l.options.Now()
	err := add(bytes.NewReader(l.taken))
	l.pause(began, err)
	if err == nil {
		l.taken = nil
	}
	return err
}

// take returns the lines that wait, nil if there are none.
func (l *Late) take() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gz == nil {
		return nil
	}
	if l.leftOut > 0 {
		l.add(line{time: l.options.Now(), level: hclog.Warn,
			msg:  "lines are left out here, because too many have come; they are in the server's log",
			args: append(l.fields[:len(l.fields):len(l.fields)], "lines", l.leftOut)})
	}
	_ = l.gz.Close() // writes to memory
	taken := bytes.Clone(l.lines.Bytes())
	l.lines.Reset()
	l.gz, l.size, l.leftOut, l.due = nil, 0, 0, time.Time{}
	return taken
}

// pause determines when the next lines, or lines whose storage failed, are stored.
func (l *Late) pause(began time.Time, failed error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.options.Now()
	l.earliest = now.Add(max(latePause, lateShare*now.Sub(began)))
	if failed != nil || l.gz != nil {
		l.due = l.earliest
	}
}

func (l *Late) write(name string, level hclog.Level, msg string, args []any) {
	logNamed(l.options.Tee, name, level, msg, args)
	if l.keep(line{time: l.options.Now(), level: level, name: name, msg: msg, args: args}) {
		l.waits()
	}
}

// keep adds a line and reports whether it is the first that waits.
func (l *Late) keep(next line) (first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size >= maxLate {
		l.leftOut++
		return false
	}
	if l.gz == nil {
		l.gz, _ = gzip.NewWriterLevel(&l.lines, gzip.BestSpeed) // the level is valid
		first = true
	}
	if l.due.IsZero() {
		l.due = next.time.Add(latePause)
		if l.due.Before(l.earliest) {
			l.due = l.earliest
		}
	}
	l.add(next)
	return first
}

func (l *Late) add(next line) {
	text := l.options.format()(next)
	l.size += len(text)
	_, _ = l.gz.Write(text) // to memory
}
