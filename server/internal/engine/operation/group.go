package operation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

// Group is the operations of one owner, which a Monitor follows. It is safe for concurrent use. A nil Group follows
// nothing.
type Group struct {
	monitor *Monitor
	owner   *Owner
	timeout time.Duration // of each operation
	done    chan struct{}

	// Guarded by the monitor's mu.
	all       []*tracked // sorted
	open      int
	growing   bool  // operations may be added, and nobody waits for the end of one
	cancelled error // why all are cancelled, nil if they are not
	forgotten bool
	revision  Revision
	noticed   map[[2]string]time.Time // by action and reason
}

// Followed is an operation as the monitor sees it.
type Followed struct {
	Operation
	Trouble   string // error of the last call, "" after an answer
	Cancelled string // why it is being cancelled, "" if it is not
}

// Revision counts what has happened to the operations of a group.
type Revision struct {
	Changes uint64 // of any field of a status
	Ends    uint64 // of operations
}

// Add adds an operation that the owner's run has started, unless the group has it. It must not be called after
// Complete.
func (g *Group) Add(o Operation) {
	if g == nil {
		return
	}
	m := g.monitor
	m.mu.Lock()
	defer m.unlock()
	at, found := slices.BinarySearchFunc(g.all, o, func(t *tracked, o Operation) int { return t.Compare(o) })
	if found || g.forgotten {
		return
	}
	m.groups[g.owner.UID] = g // the first one
	now, t := time.Now(), &tracked{Operation: o, group: g, index: -1}
	g.all = slices.Insert(g.all, at, t)
	g.revision.Changes++
	if !m.track(t, now) {
		return
	}
	m.schedule(t, now.Add(m.pace(t, now)), 0)
	if g.cancelled != nil {
		m.cancel(t, outcomeCancelled, cancelledBecause+g.cancelled.Error(), now)
	}
}

// Complete ends the additions: these are the operations that the owner's run has started, and for whose ends it waits
// from now on. Complete returns them as they are now. Others, of a former attempt, are not followed any more.
func (g *Group) Complete(operations []Operation) []Operation {
	if g == nil {
		return operations
	}
	m, now := g.monitor, time.Now()
	m.mu.Lock()
	defer m.unlock()
	kept := slices.SortedFunc(slices.Values(operations), Operation.Compare)
	g.all = slices.DeleteFunc(g.all, func(t *tracked) bool {
		at, keep := slices.BinarySearchFunc(kept, t.Operation, Operation.Compare)
		if keep { // what the run was answered, and what has become of it
			kept[at].Status = t.Status
			t.Operation = kept[at]
		} else {
			m.leave(t)
		}
		return !keep
	})
	g.growing = false
	for i, t := range g.all {
		if t.index >= 0 { // otherwise it is being called, or has ended
			m.spread(t, i, now)
		}
	}
	g.closeIfDone()
	return kept
}

// Forget is Monitor.Forget for the owner of the group.
func (g *Group) Forget() {
	if g == nil {
		return
	}
	g.monitor.mu.Lock()
	defer g.monitor.unlock()
	g.monitor.forget(g)
}

// closeIfDone closes done if all operations have ended and none can be added. The caller holds the monitor's mu.
func (g *Group) closeIfDone() {
	if g.open == 0 && !g.growing {
		close(g.done)
	}
}

// Owner returns the owner of the operations.
func (g *Group) Owner() *Owner { return g.owner }

// Operations returns all operations as they are now, sorted, and the revision that they have.
func (g *Group) Operations() ([]Operation, Revision) {
	g.monitor.mu.Lock()
	defer g.monitor.mu.Unlock()
	all := make([]Operation, len(g.all))
	for i, t := range g.all {
		all[i] = t.Operation
		all[i].PostOperationItems = slices.Clone(t.PostOperationItems)
	}
	return all, g.revision
}

// Counts returns how many operations there are, and how many have ended.
func (g *Group) Counts() Counts {
	if g == nil {
		return Counts{}
	}
	g.monitor.mu.Lock()
	defer g.monitor.mu.Unlock()
	var c Counts
	for _, t := range g.all {
		c.add(t.Phase)
	}
	return c
}

// Followed returns all operations as they are now, sorted. Their PostOperationItems are not to be changed.
func (g *Group) Followed() []Followed {
	g.monitor.mu.Lock()
	defer g.monitor.mu.Unlock()
	all := make([]Followed, len(g.all))
	for i, t := range g.all {
		all[i] = Followed{Operation: t.Operation, Trouble: t.trouble}
		if t.ending != nil {
			all[i].Cancelled = strings.TrimPrefix(t.ending.reason, cancelledBecause)
		}
	}
	return all
}

// Revision returns the revision that Operations would return.
func (g *Group) Revision() Revision {
	g.monitor.mu.Lock()
	defer g.monitor.mu.Unlock()
	return g.revision
}

// Cancel cancels all open operations, once, and those that are added later. The reason is in the errors of those that
// fail because of it.
func (g *Group) Cancel(reason error) {
	if g == nil {
		return
	}
	g.monitor.mu.Lock()
	defer g.monitor.unlock()
	if g.forgotten {
		return
	}
	if g.cancelled == nil {
		g.cancelled = reason
	}
	now := time.Now()
	for _, t := range g.all {
		if !t.Phase.Ended() {
			g.monitor.cancel(t, outcomeCancelled, cancelledBecause+reason.Error(), now)
		}
	}
}

// cancelledBecause is between the name of an operation and the reason that Cancel was called with.
const cancelledBecause = "was cancelled: "

// Done returns a channel that is closed when all operations have ended.
func (g *Group) Done() <-chan struct{} { return g.done }

// String returns the owner as logs and errors name it.
func (o *Owner) String() string { return fmt.Sprintf("%s %s/%s", o.Kind, o.Namespace, o.Name) }

// Limits of texts of plugins in bytes. They are kept for each operation.
const (
	maxError       = 4 << 10
	maxDescription = 1 << 10
	maxUnits       = 64
)

func limited(text string, limit int) string {
	return shorten.Text(strings.ToValidUTF8(text, "?"), limit)
}

// take takes what a plugin reports, as it is. Texts that are the same are kept, because those of a reply are new.
func (t *tracked) take(p framework.OperationProgress) {
	t.NCompleted, t.NTotal, t.Started, t.Updated = p.NCompleted, p.NTotal, p.Started, p.Updated
	if units := limited(p.Units, maxUnits); units != t.Units {
		t.Units = units
	}
	if description := limited(p.Description, maxDescription); description != t.Description {
		t.Description = description
	}
	if p.LastLines != "" && p.LastLines != t.LastLines {
		t.LastLines = p.LastLines
	}
	if t.Phase == New && (!p.Started.IsZero() || p.NCompleted != 0) {
		t.Phase = InProgress
	}
}

// name returns the operation as notices name it. Its own errors do not: they stand beside its name wherever they are
// shown, and few of their first bytes may be.
func (t *tracked) name() string {
	return fmt.Sprintf("operation %s of %s for %s", t.ID, t.Action, t.Item)
}

// unknown is the error of an operation that its action does not know.
func (t *tracked) unknown(err error) string {
	return "it is not known to the plugin any more, so nobody knows how it ended: " + limited(err.Error(), maxError)
}

// notCancelled is the error of an operation that its action cannot cancel.
func (t *tracked) notCancelled(now time.Time) string {
	return fmt.Sprintf("%s, but the plugin cannot stop it, so it was given up and may go on; %s", t.ending.reason,
		t.far(now))
}

// cancelled is the error of an operation that ended with an error after it was cancelled.
func (t *tracked) cancelled(text string, now time.Time) string {
	return fmt.Sprintf("%s; %s; it then ended with the error: %s", t.ending.reason, t.far(now), limited(text, maxError))
}

// givenUp is the error of an operation that did not end after it was cancelled.
func (t *tracked) givenUp(now time.Time) string {
	what := fmt.Sprintf("did not end within %s after it was cancelled", t.grace)
	if !t.ending.confirmed {
		what = fmt.Sprintf("could not be cancelled within %s", t.grace)
	}
	text := fmt.Sprintf("%s and %s, so it was given up and may go on; %s", t.ending.reason, what, t.far(now))
	if t.trouble != "" {
		text += "; the last error: " + limited(t.trouble, maxError)
	}
	return text
}

// far says how far an operation was and for how long it has been silent.
func (t *tracked) far(now time.Time) string {
	done := "it has reported no progress"
	switch units := strings.TrimSuffix(" "+t.Units, " "); {
	case t.NTotal != 0:
		done = fmt.Sprintf("it had done %d of %d%s", t.NCompleted, t.NTotal, units)
	case t.NCompleted != 0:
		done = fmt.Sprintf("it had done %d%s", t.NCompleted, units)
	}
	return fmt.Sprintf("%s, and nothing new for %s", done, now.Sub(t.progressed).Round(time.Second))
}
