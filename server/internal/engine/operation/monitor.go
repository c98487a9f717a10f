package operation

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/versioning"
)

const (
	// DefaultFrequency is the longest time between two polls of an operation.
	DefaultFrequency = 10 * time.Second
	// DefaultGrace is the time in which an operation has to end after it was cancelled.
	DefaultGrace = time.Minute

	quickest   = 100 * time.Millisecond // pace of a new operation
	unhurried  = time.Second            // pace of a new operation if no caller waits for its end
	slowing    = 20                     // the pace is the age divided by this number
	stallPolls = 4                      // polls in the time that an operation may take without progress
	concurrent = 4                      // calls of one action
	gathering  = 5                      // a call may be early by the pace divided by this, to share a request
	sweepEvery = time.Second            // time between two checks for timeouts
)

// Plugins are the actions that have started operations.
type Plugins interface {
	Progress(ctx context.Context, owner *Owner, action, id string) (framework.OperationProgress, error)
	// AtOnce returns the maximum number of operations of an owner in a call of ProgressOfMany; it is not called for
	// fewer than two. AtOnce must not block.
	AtOnce(owner *Owner, action string) int
	// ProgressOfMany returns the progress of some of the operations, by their IDs. Progress is called for the others.
	ProgressOfMany(ctx context.Context, owner *Owner, action string, ids []string) (map[string]framework.OperationProgress,
		error)
	Cancel(ctx context.Context, owner *Owner, action, id string) error
	// Declared returns the limits that the author of an action has declared, without Grace. It must not block.
	Declared(owner *Owner, action string) Limits
}

// Limits are the times that an action has for an operation. In the configuration, zero stands for the value that the
// author of the action has declared, and a negative time for no limit.
type Limits struct {
	Timeout time.Duration // from its creation to its end
	Stall   time.Duration // without progress
	Grace   time.Duration // from Cancel to its end; DefaultGrace if zero
}

// Options configure a Monitor. Only Log is required.
type Options struct {
	Frequency time.Duration              // the longest time between two polls of an operation; DefaultFrequency if zero
	Limits    func(action string) Limits // from the configuration; nil for none
	// Ended is called after an operation of an owner has ended. It must not block.
	Ended func(owner *Owner)
	// Notice is called with news that users should get at once: the calls for an operation begin to fail, or the
	// operation is cancelled because its time is over. For many operations of one owner and action, it is called once
	// a minute. It must not block.
	Notice func(Notice)
	Log    hclog.Logger
	// LogOf returns the open log of the run of an owner, by UID, for the lines about its operations; nil if there is
	// none. It must not block. nil for no logs.
	LogOf   func(uid string) hclog.Logger
	Metrics prometheus.Registerer // nil for none
}

// Monitor follows operations to their ends. Each is polled at a pace of its own. Every action has a limited number of
// concurrent calls, so a slow action delays only its own operations. Monitor is safe for concurrent use.
type Monitor struct {
	plugins Plugins
	options Options
	metrics *metrics

	mu      sync.Mutex
	ctx     context.Context // of Run; nil before
	groups  map[types.UID]*Group
	lanes   map[string]*lane
	ended   []*Owner // to be announced by unlock
	notices []Notice // likewise
	workers sync.WaitGroup
}

// NewMonitor returns a monitor that polls as soon as it runs. It returns an error if its metrics cannot be registered.
func NewMonitor(plugins Plugins, options Options) (*Monitor, error) {
	options.Frequency = cmp.Or(options.Frequency, DefaultFrequency)
	if options.Limits == nil {
		options.Limits = func(string) Limits { return Limits{} }
	}
	if options.Ended == nil {
		options.Ended = func(*Owner) {}
	}
	if options.Notice == nil {
		options.Notice = func(Notice) {}
	}
	m := &Monitor{plugins: plugins, options: options, groups: map[types.UID]*Group{}, lanes: map[string]*lane{}}
	var err error
	m.metrics, err = newMetrics(options.Metrics, m)
	return m, err
}

// Run polls until ctx ends, and returns when all calls have ended.
func (m *Monitor) Run(ctx context.Context) {
	m.mu.Lock()
	m.ctx = ctx
	for _, l := range m.lanes {
		m.wake(l)
	}
	m.unlock()
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			m.sweep(now)
		case <-ctx.Done():
			m.mu.Lock()
			for _, l := range m.lanes {
				l.timer.Stop()
			}
			m.unlock()
			m.workers.Wait()
			return
		}
	}
}

// Begin returns a group for the operations of an owner whose run starts them. It follows the given operations of a
// former attempt, and each operation that is added later; Group.Complete ends the additions. The timeout counts from
// the creation of each; zero is none. A former group of the owner is forgotten. A nil Monitor returns a nil Group.
func (m *Monitor) Begin(owner *Owner, operations []Operation, timeout time.Duration) *Group {
	if m == nil {
		return nil
	}
	m.Forget(owner.UID)
	m.mu.Lock()
	defer m.unlock()
	g := &Group{monitor: m, owner: owner, timeout: timeout, growing: true, done: make(chan struct{})}
	m.fill(g, operations)
	return g
}

// Follow follows the operations of owner to their ends. The timeout is as for Begin. If the owner is already followed,
// its group is returned and the other arguments do not count.
func (m *Monitor) Follow(owner *Owner, operations []Operation, timeout time.Duration) *Group {
	m.mu.Lock()
	defer m.unlock()
	if g, ok := m.groups[owner.UID]; ok {
		return g
	}
	g := &Group{monitor: m, owner: owner, timeout: timeout, done: make(chan struct{})}
	m.groups[owner.UID] = g
	m.fill(g, operations)
	g.closeIfDone()
	return g
}

// fill adds operations to an empty group. The caller holds mu.
func (m *Monitor) fill(g *Group, operations []Operation) {
	if len(operations) > 0 {
		m.groups[g.owner.UID] = g
	}
	now := time.Now()
	slots := make([]tracked, len(operations))
	g.all = make([]*tracked, len(operations))
	for i, o := range slices.SortedFunc(slices.Values(operations), Operation.Compare) {
		slots[i] = tracked{Operation: o, group: g, index: -1}
		g.all[i] = &slots[i]
		if m.track(g.all[i], now) {
			m.spread(g.all[i], i, now)
		}
	}
}

// track begins to follow an operation, and reports whether it has to be polled, which is false if it has ended. The
// caller holds mu.
func (m *Monitor) track(t *tracked, now time.Time) bool {
	if t.Phase.Ended() {
		return false
	}
	limits, declared := m.options.Limits(t.Action), m.plugins.Declared(t.group.owner, t.Action)
	// Times are relative to now by the monotonic clock, so that later changes of the clock do not count.
	t.followed, t.progressed = now, now
	t.created = now.Add(-max(0, now.Round(0).Sub(t.Created.Round(0))))
	t.timeout = shorter(t.group.timeout, cmp.Or(limits.Timeout, declared.Timeout))
	t.stall, t.grace = max(0, cmp.Or(limits.Stall, declared.Stall)), cmp.Or(max(0, limits.Grace), DefaultGrace)
	t.group.open++
	t.lane = m.lane(t.Action)
	t.lane.open++
	return true
}

// spread schedules the next poll of the operation at a position of its group. The first polls of many old operations
// are spread, and so are the later ones. The caller holds mu.
func (m *Monitor) spread(t *tracked, position int, now time.Time) {
	m.schedule(t, now.Add(m.pace(t, now)*time.Duration(position)/time.Duration(len(t.group.all))), 0)
}

// Group returns the operations of an owner that are followed, or nil.
func (m *Monitor) Group(uid types.UID) *Group {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.groups[uid]
}

// Groups returns the groups of all owners, sorted.
func (m *Monitor) Groups() []*Group {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.groups), func(a, b *Group) int {
		return cmp.Or(cmp.Compare(a.owner.String(), b.owner.String()), cmp.Compare(a.owner.UID, b.owner.UID))
	})
}

// Forget ends the monitoring of an owner's operations. Open operations continue without it, and their group is never
// done.
func (m *Monitor) Forget(uid types.UID) {
	m.mu.Lock()
	defer m.unlock()
	if g, ok := m.groups[uid]; ok {
		m.forget(g)
	}
}

// forget is Forget for a group. The caller holds mu.
func (m *Monitor) forget(g *Group) {
	if m.groups[g.owner.UID] == g {
		delete(m.groups, g.owner.UID)
	}
	g.forgotten = true
	for _, t := range g.all {
		m.leave(t)
	}
}

// leave ends the monitoring of an operation. The caller holds mu.
func (m *Monitor) leave(t *tracked) {
	if !t.Phase.Ended() && !t.left {
		m.drop(t)
	}
	t.left = true
}

func shorter(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// tracked is an operation that the monitor follows. The monitor's mu guards it.
type tracked struct {
	Operation
	group *Group
	lane  *lane

	created    time.Time // by this process's clock, unlike Operation.Created
	followed   time.Time
	progressed time.Time // the time of the last observed change of its progress
	timeout    time.Duration
	stall      time.Duration
	grace      time.Duration

	left   bool    // it is not followed any more
	ending *ending // nil unless it is to be cancelled
	// stopPoll ends the poll in progress; nil if there is none.
	stopPoll context.CancelFunc
	alone    bool   // the next poll is of this operation only
	asked    bool   // a reply or an error has arrived
	trouble  string // the last error of a call; "" after a reply

	due   time.Time     // for the next call
	early time.Duration // the call may be made earlier by this time
	index int           // in the lane's queue; -1 if it is not there
}

// cancels reports whether the next call is Cancel.
func (t *tracked) cancels() bool { return t.ending != nil && !t.ending.confirmed }

// ending is why an operation is cancelled, and the state of the cancellation.
type ending struct {
	outcome   string
	reason    string // "timed out after 4h0m0s"
	since     time.Time
	confirmed bool // the action has accepted Cancel
}

// lane holds the operations of one action.
type lane struct {
	action  string
	open    int
	queue   queue
	workers int
	timer   *time.Timer

	logged   string // the last error
	loggedAt time.Time
}

// lane returns the lane of an action. The caller holds mu.
func (m *Monitor) lane(action string) *lane {
	l, ok := m.lanes[action]
	if !ok {
		l = &lane{action: action}
		l.timer = time.AfterFunc(time.Hour, func() {
			m.mu.Lock()
			defer m.unlock()
			m.wake(l)
		})
		m.lanes[action] = l
	}
	return l
}

// log returns the log for lines about the operations of an owner.
func (m *Monitor) log(owner *Owner) hclog.Logger {
	if m.options.LogOf != nil {
		if log := m.options.LogOf(string(owner.UID)); log != nil {
			return log
		}
	}
	return m.options.Log
}

// unlock releases mu and announces the events since it was locked.
func (m *Monitor) unlock() {
	ended, notices := m.ended, m.notices
	m.ended, m.notices = nil, nil
	m.mu.Unlock()
	for _, notice := range notices {
		m.options.Notice(notice)
	}
	for _, owner := range ended {
		m.options.Ended(owner)
	}
}

// pace returns the time between two polls of an operation.
func (m *Monitor) pace(t *tracked, now time.Time) time.Duration {
	age, least := now.Sub(t.created), quickest
	switch {
	case t.ending != nil:
		age = now.Sub(t.ending.since)
	case t.group.growing:
		least = unhurried
	}
	pace := min(max(age/slowing, least), m.options.Frequency)
	if t.stall > 0 { // changes of the progress must be noticed in time
		pace = min(pace, max(t.stall/stallPolls, quickest))
	}
	return pace
}

// schedule adds an operation to the queue of its lane, or moves it there. The caller holds mu.
func (m *Monitor) schedule(t *tracked, due time.Time, early time.Duration) {
	t.due, t.early = due, early
	if t.index < 0 {
		heap.Push(&t.lane.queue, t)
	} else {
		heap.Fix(&t.lane.queue, t.index)
	}
	if t.lane.queue[0] == t {
		m.wake(t.lane)
	}
}

// drop ends the work on an operation. The caller holds mu.
func (m *Monitor) drop(t *tracked) {
	l := t.lane
	t.group.open--
	if t.index >= 0 {
		heap.Remove(&l.queue, t.index)
	}
	if l.open--; l.open == 0 {
		l.timer.Stop()
		delete(m.lanes, l.action)
	}
}

// wake starts a worker if a call is due and the action has fewer workers than it may have. Otherwise it sets the
// timer. The caller holds mu.
func (m *Monitor) wake(l *lane) {
	if m.ctx == nil || m.ctx.Err() != nil || len(l.queue) == 0 || l.workers == concurrent {
		return
	}
	now := time.Now()
	if wait := l.queue[0].due.Sub(now); wait > 0 {
		l.timer.Reset(wait)
		return
	}
	l.workers++
	m.workers.Go(func() { m.work(l) })
}

// work makes the calls of a lane that are due.
func (m *Monitor) work(l *lane) {
	m.mu.Lock()
	defer m.unlock()
	for m.ctx.Err() == nil && len(l.queue) > 0 {
		t := l.queue[0]
		// The next call may be made early, so that many calls follow each other. That costs less than waiting between
		// them.
		if now := time.Now(); t.due.Add(-t.early).After(now) {
			break
		}
		heap.Pop(&l.queue)
		all := m.gather(t)
		m.wake(l)
		if len(all) > 1 {
			m.callMany(all)
		} else {
			m.call(t)
		}
	}
	l.workers--
	m.wake(l)
}

// gather removes the operations from the queue that can be polled in one call with t, which was the first in it, and
// returns all of them. The caller holds mu.
func (m *Monitor) gather(t *tracked) []*tracked {
	all := []*tracked{t}
	if t.alone || t.cancels() {
		return all
	}
	most, now := m.plugins.AtOnce(t.group.owner, t.Action), time.Now()
	for _, other := range t.group.all {
		if len(all) >= most {
			break
		}
		if other.lane == t.lane && other.index >= 0 && !other.alone && !other.cancels() &&
			!other.due.Add(-other.early).After(now) {
			heap.Remove(&t.lane.queue, other.index)
			all = append(all, other)
		}
	}
	return all
}

// callMany polls operations of an owner and an action in one call. Operations without a reply are then polled alone.
// The caller holds mu, which is released meanwhile.
func (m *Monitor) callMany(all []*tracked) {
	owner, action, began := all[0].group.owner, all[0].Action, time.Now()
	ctx, stop := context.WithCancel(m.ctx)
	defer stop()
	ids := make([]string, 0, len(all))
	for _, t := range all {
		t.stopPoll = stop
		ids = append(ids, t.ID)
	}
	m.unlock()
	answers, err := m.plugins.ProgressOfMany(ctx, owner, action, ids)
	now := time.Now()
	m.mu.Lock()
	m.metrics.polled(action, now.Sub(began))
	if err != nil {
		m.options.Log.Debug("operations could not be asked for their progress in one call, asking for each", "owner",
			owner.String(), "plugin", action, "error", err)
	}
	for _, t := range all {
		t.stopPoll = nil
		if t.Phase.Ended() || t.left {
			continue // meanwhile
		}
		progress, answered := answers[t.ID]
		if !answered {
			t.alone = ctx.Err() == nil // otherwise one of them is cancelled next
			m.schedule(t, now, 0)
			continue
		}
		m.answered(t, progress, now)
		m.scheduleNext(t, began, now, false)
	}
}

// call makes the call that an operation needs. The caller holds mu, which is released meanwhile.
func (m *Monitor) call(t *tracked) {
	cancel := t.cancels()
	owner, began := t.group.owner, time.Now()
	// A hanging poll must not prevent the cancellation of the operation.
	ctx, stop := context.WithCancel(m.ctx)
	defer stop()
	if !cancel {
		t.stopPoll = stop
	}
	m.unlock()
	var progress framework.OperationProgress
	var err error
	if cancel {
		err = m.plugins.Cancel(ctx, owner, t.Action, t.ID)
	} else {
		progress, err = m.plugins.Progress(ctx, owner, t.Action, t.ID)
	}
	now := time.Now()
	m.mu.Lock()
	t.stopPoll = nil
	if t.Phase.Ended() || t.left {
		return // meanwhile
	}
	t.asked, t.alone = true, err != nil
	if !cancel {
		m.metrics.polled(t.Action, now.Sub(began))
	}
	switch {
	case err != nil && m.ctx.Err() != nil:
		// It is asked again by the next server.
	case errors.Is(err, versioning.ErrNotFound):
		m.end(t, Failed, outcomeUnknown, t.unknown(err))
		return
	case cancel && errors.Is(err, versioning.ErrNotCancelled):
		m.end(t, Failed, t.ending.outcome, t.notCancelled(now))
		return
	case err != nil && ctx.Err() != nil:
		// It is cancelled next.
	case err != nil:
		m.failed(t, err, now)
	case cancel:
		t.trouble, t.ending.confirmed = "", true
	default:
		m.answered(t, progress, now)
	}
	m.scheduleNext(t, began, now, cancel)
}

// answered processes the reply to a poll. The caller holds mu.
func (m *Monitor) answered(t *tracked, p framework.OperationProgress, now time.Time) {
	t.asked, t.trouble = true, ""
	m.update(t, p, now)
}

// scheduleNext schedules the next call. began is when the last one began, and cancel reports whether that was Cancel.
// The caller holds mu.
func (m *Monitor) scheduleNext(t *tracked, began, now time.Time, cancel bool) {
	switch {
	case t.Phase.Ended():
	case t.cancels() && !cancel: // since the poll began
		m.schedule(t, now, 0)
	default:
		pace := m.pace(t, now)
		m.schedule(t, began.Add(pace), pace/gathering)
	}
}

// failed logs the error of a call once, and errors of many operations of an action at most once a second.
func (m *Monitor) failed(t *tracked, err error, now time.Time) {
	text := err.Error()
	if t.trouble == text {
		return
	}
	if t.trouble == "" {
		m.notice(t, TroubleBegan, fmt.Sprintf("%s cannot be followed, it is asked again until it times out: %s", t.name(),
			limited(text, maxError)), now)
	}
	t.trouble = text
	level := hclog.Warn
	if l := t.lane; l.logged == text || now.Sub(l.loggedAt) < time.Second {
		level = hclog.Debug
	} else {
		l.logged, l.loggedAt = text, now
	}
	m.log(t.group.owner).Log(level, "an operation could not be asked for its progress or cancelled, trying again until "+
		"it times out",
		"owner", t.group.owner.String(), "plugin", t.Action, "operation", t.ID, "item", t.Item.String(), "error", err)
}

// update stores the reported progress. The caller holds mu.
func (m *Monitor) update(t *tracked, p framework.OperationProgress, now time.Time) {
	before := t.Status
	t.take(p)
	if t.Status != before {
		t.group.revision.Changes++
	}
	if t.NCompleted != before.NCompleted || t.NTotal != before.NTotal || t.Units != before.Units ||
		t.Description != before.Description || t.Phase != before.Phase {
		t.progressed = now
	}
	switch {
	case p.Completed && p.Err == "":
		m.end(t, Completed, outcomeCompleted, "")
	case p.Completed && t.ending != nil:
		m.end(t, Failed, t.ending.outcome, t.cancelled(p.Err, now))
	case p.Completed:
		m.end(t, Failed, outcomeFailed, limited(p.Err, maxError))
	}
}

// end ends an operation. The caller holds mu.
func (m *Monitor) end(t *tracked, phase Phase, outcome, text string) {
	t.Phase, t.Error = phase, text
	if phase == Completed {
		t.LastLines = ""
	}
	t.trouble, t.ending = "", nil
	m.drop(t)
	g := t.group
	g.revision.Changes++
	g.revision.Ends++
	m.ended = append(m.ended, g.owner)
	g.closeIfDone()
	m.metrics.ended(t.Action, outcome, time.Since(t.created))
	level, fields := hclog.Info, []any{"owner", g.owner.String(), "plugin", t.Action, "operation", t.ID, "item",
		t.Item.String(), "outcome", outcome}
	if phase == Failed {
		level, fields = hclog.Warn, append(fields, "error", text)
	}
	m.log(g.owner).Log(level, "operation ended", fields...)
}

// cancel begins to cancel an open operation. The caller holds mu.
func (m *Monitor) cancel(t *tracked, outcome, reason string, now time.Time) {
	if t.ending != nil {
		return
	}
	t.ending = &ending{outcome: outcome, reason: reason, since: now}
	m.log(t.group.owner).Warn("cancelling an operation", "owner", t.group.owner.String(), "plugin", t.Action, "operation",
		t.ID, "item", t.Item.String(), "reason", reason)
	if t.index >= 0 {
		m.schedule(t, now, 0)
	} else if t.stopPoll != nil {
		t.stopPoll()
	}
}

// sweep cancels the operations whose time is over, and gives up those that did not end after their cancellation. It
// makes no calls, so it does not depend on the speed of the actions.
func (m *Monitor) sweep(now time.Time) {
	m.mu.Lock()
	defer m.unlock()
	for _, g := range m.groups {
		if g.open == 0 {
			continue
		}
		for _, t := range g.all {
			switch {
			case t.Phase.Ended():
			case t.ending != nil:
				if now.Sub(t.ending.since) >= t.grace {
					m.end(t, Failed, t.ending.outcome, t.givenUp(now))
				}
			case !t.asked && now.Sub(t.followed) < t.grace:
				// It may have ended before this monitor followed it.
			case t.timeout > 0 && now.Sub(t.created) >= t.timeout:
				m.timeOver(t, outcomeTimedOut, TimedOut, "timed out after "+t.timeout.String(), now)
			case t.stall > 0 && now.Sub(t.progressed) >= t.stall:
				m.timeOver(t, outcomeStalled, Stalled, "made no progress for "+t.stall.String(), now)
			}
		}
	}
}

// timeOver cancels an operation whose time is over. The caller holds mu.
func (m *Monitor) timeOver(t *tracked, outcome, notice, reason string, now time.Time) {
	m.cancel(t, outcome, reason, now)
	m.notice(t, notice, fmt.Sprintf("%s %s and is cancelled; %s", t.name(), reason, t.far(now)), now)
}

// queue is a heap of operations by the time at which they are due.
type queue []*tracked

func (q queue) Len() int           { return len(q) }
func (q queue) Less(a, b int) bool { return q[a].due.Before(q[b].due) }
func (q queue) Swap(a, b int)      { q[a], q[b] = q[b], q[a]; q[a].index, q[b].index = a, b }

// Push implements heap.Interface.
func (q *queue) Push(x any) {
	t := x.(*tracked) //nolint:forcetypeassert // heap passes the argument of schedule on
	t.index = len(*q)
	*q = append(*q, t)
}

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := len(*q) - 1
	t := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	t.index = -1
	return t
}
