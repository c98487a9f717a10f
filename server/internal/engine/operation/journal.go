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

// Journal is the durable record of what the actions of one backup or restore were asked to start, in this attempt and
// in former ones. It is a log of records (records.go) in ConfigMaps (pages.go). Its methods are safe for concurrent
// use. A nil Journal records nothing.
type Journal struct {
	owner   *Owner
	attempt string // is different each time that the journal is opened
	damage  error

	mu      sync.Mutex
	entries map[entryKey]*entry
	calls   int    // of actions, in this attempt
	open    int    // calls of this process between Begin and Entry.End
	next    *batch // is to be written next

	turn  chan struct{} // holds the caller that writes
	pages *pages        // of that caller
}

// entryKey identifies an operation before it has an id. It is as unique as the key that the action gets.
type entryKey struct{ action, item, sent string }

func (s Start) key() entryKey { return entryKey{s.Action, s.Item.String(), string(s.Sent)} }

// entry is what is known of one start.
type entry struct {
	Start
	keyed bool
	order int
	began time.Time     // zero in records of former versions
	ids   []string      // of the operations that were started; more than one only if the action breaks its contract
	open  map[call]bool // calls whose answers are not known
}

// call identifies a call of an action: its number in one attempt.
type call struct {
	attempt string
	number  int
}

// Recorded is an operation that an action was asked to start.
type Recorded struct {
	Start
	ID    string    // "" if it is not known whether the operation was started
	Keyed bool      // the action returns the same operation if it is asked again
	Began time.Time // when the action was asked first; zero if that is not on record
}

// InDoubt reports whether it is not known whether the operation was started.
func (r Recorded) InDoubt() bool { return r.ID == "" }

// Operation returns a recorded operation that has an ID. now is its creation if that is not on record.
func (r Recorded) Operation(now time.Time) Operation {
	o := Operation{Action: r.Action, ID: r.ID, Item: r.Item, Created: r.Began, Status: Status{Phase: New}}
	if o.Created.IsZero() {
		o.Created = now
	}
	return o
}

// Owner returns the backup or restore whose journal this is, as it was when the journal began.
func (j *Journal) Owner() *Owner {
	if j == nil {
		return nil
	}
	return j.owner
}

// Damage returns what was wrong with the records of former attempts, nil if all of them could be read.
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

// Begin records that an action is about to be asked to start an operation. It returns when the record is durable;
// concurrent calls share a write. Entry.End must be called with the answer. After an error the action must not be
// asked.
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

// Started records an operation whose action cannot be asked again: its version has no keys. It returns when the record
// is durable.
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

// Flush returns when all that was recorded is durable.
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

// answered records the answer of an action: an id, or "" if there was nothing to start. It resolves all doubts, because
// the answer is the same for each call.
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

// Began returns when the action was asked first for the operation, maybe by a former attempt. It is zero if that is not
// on record.
func (e *Entry) Began() time.Time {
	if e == nil {
		return time.Time{}
	}
	e.journal.mu.Lock()
	defer e.journal.mu.Unlock()
	return e.entry.began
}

// End records the answer of the action: the id of the operation, or "" if none was started. The record becomes durable
// with the next write. An error that leaves open whether an operation was started is recorded as that.
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
			return // the begin without an end says so
		}
		if err != nil {
			delete(e.entry.open, e.call)
		} else {
			e.entry.answered(id)
		}
		j.next.lines = append(j.next.lines, record{Call: e.call.number, End: &end{ID: id, Refused: err != nil}}.encode())
	})
}

// patience is how long the writer of a batch waits for others while no call ends.
const patience = 20 * time.Millisecond

// batch is the records that one caller writes for all.
type batch struct {
	lines   []line
	callers int           // that wait for it
	ready   chan struct{} // closed when it need not wait for more of them
	done    chan struct{}
	err     error // valid after done
}

func newBatch() *batch { return &batch{ready: make(chan struct{}), done: make(chan struct{})} }

// look closes ready if as many callers wait for the batch as calls are open. The caller holds the journal's mu.
func (b *batch) look(open int) {
	select {
	case <-b.ready:
	default:
		if b.callers > 0 && b.callers >= open {
			close(b.ready)
		}
	}
}

// commit makes lines durable, and all that were made before, in their order. While one caller writes, the lines of
// others gather for the next one. A patient caller lets some gather before it writes.
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

// gather waits, as long as calls end, until the callers of all open calls wait for the batch. A write costs the API
// server about the same for one record as for many.
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

// errWriterLeft is the error of a batch whose writer's context has ended. The others try again.
var errWriterLeft = errors.New("the context of the writer has ended")

// writeNext writes b unless that is done already. The caller has the turn, so b is the next one otherwise.
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
		// Nobody repeats the ends. A begin counts only for its caller, who gets the error.
		ends := slices.DeleteFunc(b.lines, func(l line) bool { return !l.ends })
		j.mu.Lock()
		j.next.lines = append(ends, j.next.lines...)
		j.mu.Unlock()
	}
	close(b.done)
}
