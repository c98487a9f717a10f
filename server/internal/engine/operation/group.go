package operation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
)

// Group holds the operations of one owner, which a Monitor follows. It is safe for concurrent use. A nil Group follows
// nothing.
type Group struct {
	monitor *Monitor
	owner   *Owner
	timeout time.Duration // of each operation
	done    chan struct{}

	// Guarded by the monitor's mu.
	all       []*tracked // sorted
	open      int
	growing   bool  // operations may be added, and no caller waits for the end of one
	cancelled error // the reason why all are cancelled; nil if they are not
	forgotten bool
	revision  Revision
	noticed   map[[2]string]time.Time // by action and reason
}

// Followed is an operation in the state of the monitor.
type Followed struct {
	Operation
	Trouble   string // error of the last call; "" after a reply
	Cancelled string // the reason of a cancellation; "" without one
}

// Revision counts the changes of the operations of a group.
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
	m.groups[g.owner.UID] = g // this is the first operation
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

// Complete ends the additions. The arguments are the operations that the owner's run has started, and for whose ends
// it waits from now on. Complete returns their current state. Others, of a former attempt, are not followed any more.
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
		if keep { // the reply to the run, with the current status
			kept[at].Status = t.Status
			t.Operation = kept[at]
		} else {
			m.leave(t)
		}
		return !keep
	})
	g.growing = false
	for i, t := range g.all {
		if t.index >= 0 { // otherwise its call is in progress, or it has ended
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

// Operations returns the current state of all operations, sorted, and its revision.
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

// Counts returns the number of operations, and of those that have ended.
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

// Followed returns the current state of all operations, sorted. The caller must not change their PostOperationItems.
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

// Revision returns the current revision.
func (g *Group) Revision() Revision {
	g.monitor.mu.Lock()
	defer g.monitor.mu.Unlock()
	return g.revision
}

// Cancel cancels all open operations once, and operations that are added later. The errors of operations that fail for
// this reason contain it.
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

// cancelledBecause separates the name of an operation and the reason of its cancellation.
const cancelledBecause = "was cancelled: "

// Done returns a channel that is closed when all operations have ended.
func (g *Group) Done() <-chan struct{} { return g.done }

// String returns the name of the owner in logs and errors.
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

// take stores the report of a plugin. A text that is equal to the stored one is not replaced, because each reply has
// its own copy.
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

// name returns the name of the operation in notices. Its own errors do not contain it: they are shown beside the name,
// often cut off after a few bytes.
func (t *tracked) name() string {
	return fmt.Sprintf("operation %s of %s for %s", t.ID, t.Action, t.Item)
}

// unknown returns the error of an operation that its action does not find.
func (t *tracked) unknown(err error) string {
	return "it is not known to the plugin any more, so its result is unknown: " + limited(err.Error(), maxError)
}

// notCancelled returns the error of an operation that its action cannot cancel.
func (t *tracked) notCancelled(now time.Time) string {
	return fmt.Sprintf("%s, but the plugin cannot stop it, so it was given up and may go on; %s", t.ending.reason,
		t.far(now))
}

// cancelled returns the error of an operation that ended with an error after it was cancelled.
func (t *tracked) cancelled(text string, now time.Time) string {
	return fmt.Sprintf("%s; %s; it then ended with the error: %s", t.ending.reason, t.far(now), limited(text, maxError))
}

// givenUp returns the error of an operation that did not end after it was cancelled.
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

// far returns the progress of an operation and the time since its last change, as text.
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
