package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Journal is the durable record of the starts that one backup or restore has requested from actions, in this attempt
// and in former ones. It is a log of records (records.go) in ConfigMaps (pages.go). Its methods are safe for
// concurrent use. A nil Journal records nothing.
type Journal struct {
	owner   *Owner
	attempt string // different each time that the journal is opened
	damage  error

	mu      sync.Mutex
	entries map[entryKey]*entry
	calls   int    // of actions, in this attempt
	open    int    // calls of this process between Begin and Entry.End
	next    *batch // the next one to write

	turn  chan struct{} // held by the caller that writes
	pages *pages        // used by that caller
}

// entryKey identifies an operation before it has an ID. It is as unique as the key in the call of the action.
type entryKey struct{ action, item, sent string }

func (s Start) key() entryKey { return entryKey{s.Action, s.Item.String(), string(s.Sent)} }

// entry is the state of one start.
type entry struct {
	Start
	keyed bool
	order int
	began time.Time     // zero in records of former versions
	ids   []string      // of the operations that were started; more than one only if the action breaks its contract
	open  map[call]bool // calls whose replies are not known
}

// call identifies a call of an action: its number in one attempt.
type call struct {
	attempt string
	number  int
}

// Recorded is an operation whose start was requested from an action.
type Recorded struct {
	Start
	ID    string    // "" if it is unknown whether the operation was started
	Keyed bool      // the action returns the same operation in a repeated call
	Began time.Time // the time of the first call; zero if it is not recorded
}

// InDoubt reports whether it is unknown if the operation was started.
func (r Recorded) InDoubt() bool { return r.ID == "" }

// Operation returns a recorded operation that has an ID. now is its creation if that is not recorded.
func (r Recorded) Operation(now time.Time) Operation {
	o := Operation{Action: r.Action, ID: r.ID, Item: r.Item, Created: r.Began, Status: Status{Phase: New}}
	if o.Created.IsZero() {
		o.Created = now
	}
	return o
}

// Owner returns the backup or restore of the journal, as of the beginning of the journal.
func (j *Journal) Owner() *Owner {
	if j == nil {
		return nil
	}
	return j.owner
}

// Damage returns the problems with the records of former attempts, or nil if all of them could be read.
func (j *Journal) Damage() error {
	if j == nil {
		return nil
	}
	return j.damage
}

// Starts returns the operations that were started, or may have been, in the order of their first records. The order of
// concurrent starts is undefined.
func (j *Journal) Starts() []Recorded {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []Recorded
	for _, e := range slices.SortedFunc(maps.Values(j.entries),
		func(a, b *entry) int { return cmp.Compare(a.order, b.order) }) {
		for _, id := range e.ids {
			all = append(all, Recorded{Start: e.Start, ID: id, Keyed: e.keyed, Began: e.began})
		}
		if len(e.open) > 0 {
			all = append(all, Recorded{Start: e.Start, Keyed: e.keyed, Began: e.began})
		}
	}
	return all
}

// Begin records that an action is about to be called to start an operation. It returns when the record is durable;
// concurrent calls share a write. Entry.End must be called with the reply. After an error the action must not be
// called.
func (j *Journal) Begin(ctx context.Context, s Start) (*Entry, error) {
	if j == nil {
		return nil, nil
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	j.mu.Lock()
	c, now := j.nextCall(), time.Now()
	e := j.entry(s, true)
	e.begins(c, now)
	j.mu.Unlock()
	err := j.commit(ctx, true, record{Call: c.number, Begin: begun(s, true, now)}.encode())
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		delete(e.open, c)
		return nil, err
	}
	j.open++
	return &Entry{journal: j, entry: e, call: c}, nil
}

// Started records an operation of an action whose call cannot be repeated, because its version has no keys. It returns
// when the record is durable.
func (j *Journal) Started(ctx context.Context, s Start, id string) error {
	if j == nil {
		return nil
	}
	if err := s.check(); err != nil {
		return err
	}
	j.mu.Lock()
	c, now := j.nextCall(), time.Now()
	e := j.entry(s, false)
	e.begins(c, now)
	e.answered(id)
	j.mu.Unlock()
	return j.commit(ctx, false, record{Call: c.number, Begin: begun(s, false, now), End: &end{ID: id}}.encode())
}

// Flush returns when all records are durable.
func (j *Journal) Flush(ctx context.Context) error {
	if j == nil {
		return nil
	}
	return j.commit(ctx, false)
}

// nextCall numbers a call of an action. The caller holds mu.
func (j *Journal) nextCall() call {
	j.calls++
	return call{j.attempt, j.calls}
}

// entry returns the entry of a start. The caller holds mu.
func (j *Journal) entry(s Start, keyed bool) *entry {
	e, ok := j.entries[s.key()]
	if !ok {
		e = &entry{Start: s, order: len(j.entries), open: map[call]bool{}}
		j.entries[s.key()] = e
	}
	e.keyed = keyed
	return e
}

// begins records a call. Calls before it count only if they have, or may have, started an operation.
func (e *entry) begins(c call, at time.Time) {
	if len(e.open) == 0 && len(e.ids) == 0 {
		e.began = at
	}
	e.open[c] = true
}

// answered records the reply of an action: an ID, or "" if there was nothing to start. It resolves all doubts, because
// every call with the key gets the same reply.
func (e *entry) answered(id string) {
	clear(e.open)
	if id != "" && !slices.Contains(e.ids, id) {
		e.ids = append(e.ids, id)
	}
}

// Entry is one call of an action in a journal. A nil Entry records nothing.
type Entry struct {
	journal *Journal
	entry   *entry
	call    call
	once    sync.Once
}

// Began returns the time of the first call for the operation, which may be of a former attempt. It is zero if it is
// not recorded.
func (e *Entry) Began() time.Time {
	if e == nil {
		return time.Time{}
	}
	e.journal.mu.Lock()
	defer e.journal.mu.Unlock()
	return e.entry.began
}

// End records the reply of the action: the ID of the operation, or "" if none was started. The record becomes durable
// with the next write. If the error leaves open whether an operation was started, the start remains in doubt.
func (e *Entry) End(id string, err error) {
	if e == nil {
		return
	}
	e.once.Do(func() {
		j := e.journal
		j.mu.Lock()
		defer j.mu.Unlock()
		j.open--
		j.next.look(j.open)
		if err != nil && LeavesDoubt(err) {
			return // the begin without an end records that
		}
		if err != nil {
			delete(e.entry.open, e.call)
		} else {
			e.entry.answered(id)
		}
		j.next.lines = append(j.next.lines, record{Call: e.call.number, End: &end{ID: id, Refused: err != nil}}.encode())
	})
}

// patience is how long the writer of a batch waits for other callers if no call ends.
const patience = 20 * time.Millisecond

// batch holds the records that one caller writes for all.
type batch struct {
	lines   []line
	callers int           // that wait for the batch
	ready   chan struct{} // closed when the batch need not wait for more callers
	done    chan struct{}
	err     error // valid after done
}

func newBatch() *batch { return &batch{ready: make(chan struct{}), done: make(chan struct{})} }

// look closes ready if as many callers wait for the batch as there are open calls. The caller holds the journal's mu.
func (b *batch) look(open int) {
	select {
	case <-b.ready:
	default:
		if b.callers > 0 && b.callers >= open {
			close(b.ready)
		}
	}
}

// commit makes lines durable, after all earlier lines. While one caller writes, the lines of others are collected for
// the next one. A patient caller waits for other lines before it writes.
func (j *Journal) commit(ctx context.Context, patient bool, lines ...line) error {
	for {
		j.mu.Lock()
		b := j.next
		b.lines = append(b.lines, lines...)
		b.callers++
		if patient {
			b.look(j.open)
		} else {
			b.look(0)
		}
		j.mu.Unlock()
		select {
		case j.turn <- struct{}{}:
			j.gather(ctx, b)
			j.writeNext(ctx, b)
			<-j.turn
		case <-b.done:
		case <-ctx.Done():
			return fmt.Errorf("record operations: %w", context.Cause(ctx))
		}
		<-b.done
		if b.err == nil {
			return nil
		}
		if ctx.Err() != nil || !errors.Is(b.err, errWriterLeft) {
			return fmt.Errorf("record operations: %w", b.err)
		}
	}
}

// gather waits, as long as calls end, until the callers of all open calls wait for the batch. For the API server, a
// write costs about the same with one record as with many.
func (j *Journal) gather(ctx context.Context, b *batch) {
	for open := -1; ; {
		j.mu.Lock()
		before := open
		open = j.open
		j.mu.Unlock()
		if open == before {
			return
		}
		select {
		case <-b.ready:
			return
		case <-b.done:
			return
		case <-ctx.Done():
			return
		case <-time.After(patience):
		}
	}
}

// errWriterLeft is the error of a batch whose writer's context has ended. The other callers try again.
var errWriterLeft = errors.New("the context of the writer has ended")

// writeNext writes b unless that is already done. The caller has the turn, so b is the next batch if it is not
// written.
func (j *Journal) writeNext(ctx context.Context, b *batch) {
	j.mu.Lock()
	if b != j.next {
		j.mu.Unlock()
		return
	}
	j.next = newBatch()
	j.mu.Unlock()
	b.err = j.pages.write(ctx, b.lines)
	if b.err != nil {
		if ctx.Err() != nil {
			b.err = fmt.Errorf("%w: %w", errWriterLeft, b.err)
		}
		// The ends are not repeated. A begin counts only for its caller, who gets the error.
		ends := slices.DeleteFunc(b.lines, func(l line) bool { return !l.ends })
		j.mu.Lock()
		j.next.lines = append(ends, j.next.lines...)
		j.mu.Unlock()
	}
	close(b.done)
}
