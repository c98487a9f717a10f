package backupqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

// observer watches every state of every Backup of a namespace in the order of the API server, and checks each step of
// the queue against the rules. It also determines when the queue is idle.
type observer struct {
	mu      sync.Mutex
	changed *sync.Cond
	rules   queueRules
	former  []string // the former namespaces, while the queue may have either these or the current ones
	state   map[string]*velerov1.Backup
	seen    uint64 // the newest version in state
	written uint64 // the newest version that the queue wrote
	byHand  map[string]velerov1.BackupPhase
	broken  error // the first broken rule

	queue *watchedQueue // nil if none runs
	// For a life in memory. step takes a step and reports whether one was possible; unfinished reports whether users
	// have steps left.
	step       func() bool
	unfinished func() bool
	record     func(watch.EventType, *velerov1.Backup) // gets all events; may be nil
}

func newObserver(rules queueRules) *observer {
	o := &observer{rules: rules, state: map[string]*velerov1.Backup{}, byHand: map[string]velerov1.BackupPhase{}}
	o.changed = sync.NewCond(&o.mu)
	return o
}

// follow watches until ctx ends.
func (o *observer) follow(ctx context.Context, c client.WithWatch, namespace string) error {
	watcher, err := c.Watch(ctx, &velerov1.BackupList{}, client.InNamespace(namespace))
	if err != nil {
		return err
	}
	go func() {
		defer watcher.Stop()
		for e := range watcher.ResultChan() {
			if b, ok := e.Object.(*velerov1.Backup); ok {
				o.sees(e.Type, b)
			} else {
				o.breaks(fmt.Errorf("the watch ended: %v", e.Object))
			}
		}
		if ctx.Err() == nil {
			o.breaks(fmt.Errorf("the watch ended"))
		}
	}()
	return nil
}

func (o *observer) breaks(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.broken == nil {
		o.broken = err
	}
	o.changed.Broadcast()
}

func (o *observer) sees(kind watch.EventType, b *velerov1.Backup) {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.changed.Broadcast()
	o.seen = max(o.seen, versionOf(b))
	if o.record != nil {
		o.record(kind, b)
	}
	was := o.state[b.Name]
	if kind == watch.Deleted {
		delete(o.state, b.Name)
		return
	}
	o.state[b.Name] = b
	if was == nil || run.BackupPhase(was) == run.BackupPhase(b) || o.broken != nil {
		return
	}
	if o.byHand[b.Name] == b.Status.Phase {
		delete(o.byHand, b.Name)
		return
	}
	o.broken = o.judge(was, b)
}

// judge checks a change of phase by the queue against the rules.
func (o *observer) judge(was, b *velerov1.Backup) error {
	switch from, to := run.BackupPhase(was), run.BackupPhase(b); {
	case from == velerov1.BackupPhaseNew && to == velerov1.BackupPhaseQueued:
		return nil
	case from == velerov1.BackupPhaseQueued && to == velerov1.BackupPhaseReadyToStart:
		var others []*velerov1.Backup
		for _, other := range o.state {
			if other.Name != b.Name {
				others = append(others, other)
			}
		}
		err := o.rules.admitted(was, others)
		if err != nil && o.former != nil {
			err = queueRules{limit: o.rules.limit, namespaces: o.former}.admitted(was, others)
		}
		return err
	default:
		return fmt.Errorf("the queue moves %s from %s to %s", b.Name, from, to)
	}
}

// expects announces that the test is about to write a phase.
func (o *observer) expects(name string, phase velerov1.BackupPhase) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.byHand[name] = phase
}

// setNamespaces announces a change of the namespaces.
func (o *observer) setNamespaces(namespaces map[string]bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.former = append([]string{}, o.rules.namespaces...)
	o.rules.namespaces = slices.Sorted(maps.Keys(namespaces))
}

// backups returns all backups, sorted by name.
func (o *observer) backups() []*velerov1.Backup {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sorted()
}

func (o *observer) sorted() []*velerov1.Backup {
	return slices.SortedFunc(maps.Values(o.state), func(a, b *velerov1.Backup) int {
		return map[bool]int{true: -1, false: 1}[a.Name < b.Name]
	})
}

// rest waits until the queue is idle and returns the first broken rule.
func (o *observer) rest(ctx context.Context) error {
	o.until(ctx, func() bool { return o.broken != nil || o.idle() })
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.broken != nil:
		return o.broken
	case ctx.Err() != nil:
		return fmt.Errorf("the queue does not become idle: %w; %s", ctx.Err(), o.queue.describe())
	default:
		o.former = nil
		if err := o.rules.settled(o.sorted()); err != nil {
			return fmt.Errorf("%w (the queue is idle: %s)", err, o.queue.describe())
		}
		return nil
	}
}

// idle reports whether the queue has nothing left to do. The caller holds mu.
func (o *observer) idle() bool {
	if o.unfinished != nil && o.unfinished() {
		return false
	}
	return o.queue != nil && o.seen >= o.written && o.queue.heardAll(o.state) && o.queue.knows(o.rules.namespaces) &&
		o.queue.quiet()
}

// wrote records a write of the queue.
func (o *observer) wrote(b client.Object) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.written = max(o.written, versionOf(b))
}

// until waits until done returns true or ctx ends. done is called with mu held.
func (o *observer) until(ctx context.Context, done func() bool) {
	defer context.AfterFunc(ctx, o.poke)()
	o.mu.Lock()
	defer o.mu.Unlock()
	for !done() && ctx.Err() == nil {
		if o.step == nil {
			o.changed.Wait()
			continue
		}
		o.mu.Unlock()
		stepped := o.step()
		o.mu.Lock()
		if !stepped && !done() {
			o.broken = cmp.Or(o.broken, errors.New("nothing is left to do, and the queue is not idle"))
			return
		}
	}
}

// await waits until the observer has received a written state.
func (o *observer) await(b *velerov1.Backup) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.seen < versionOf(b) && o.broken == nil {
		o.changed.Wait()
	}
}

// awaitDeletion waits until the observer has received the deletion of a backup or, unless removed is set, its deletion
// timestamp.
func (o *observer) awaitDeletion(name string, removed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.state[name] != nil && (removed || o.state[name].DeletionTimestamp == nil) && o.broken == nil {
		o.changed.Wait()
	}
}

// poke makes until call done again.
func (o *observer) poke() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changed.Broadcast()
}

func versionOf(o client.Object) uint64 {
	version, _ := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	return version
}

// watchedQueue is a controller that reports whether it is idle.
type watchedQueue struct {
	*Controller
	observer *observer

	mu         sync.Mutex
	heard      map[types.UID]uint64 // the newest versions of the Backups in its events
	namespaces map[string]bool      // in its events
	running    bool
	decidedAt  uint64 // woken at the start of the last decision
	decided    bool
	again      bool // the last decision has requested another one
	decisions  int
}

func newWatchedQueue(q *Controller, o *observer) *watchedQueue {
	w := &watchedQueue{Controller: q, observer: o, heard: map[types.UID]uint64{}, namespaces: map[string]bool{}}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = w
	return w
}

// setup adds the controller to mgr as Controller.Setup does, with a flaw.
func (w *watchedQueue) setup(mgr ctrl.Manager, f flaw) error {
	onBackup, onNamespace := w.onBackup(), w.onNamespace()
	if f.watch != nil {
		onBackup = f.watch(w.Controller, onBackup)
	}
	return control.NewBuilder(mgr, run.BackupQueueController, 1, logr.Discard()).
		Watches(&velerov1.Backup{}, w.heardOf(onBackup)).WatchesMetadata(namespaceMetadata(),
		w.heardOf(onNamespace)).Complete(w)
}

// Reconcile implements reconcile.Reconciler.
func (w *watchedQueue) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	w.mu.Lock()
	w.running = true
	woken := w.woken.Load()
	w.mu.Unlock()
	result, err := w.Controller.Reconcile(ctx, req)
	w.mu.Lock()
	w.running, w.decided, w.decidedAt = false, true, woken
	w.again = err != nil || result.RequeueAfter > 0
	w.decisions++
	w.mu.Unlock()
	w.observer.poke()
	return result, err
}

// heardAll reports whether the queue has received the events of all Backups.
func (w *watchedQueue) heardAll(state map[string]*velerov1.Backup) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range state {
		if w.heard[b.UID] < versionOf(b) {
			return false
		}
	}
	return len(w.heard) == len(state)
}

// knows reports whether the queue has received the events of all namespaces.
func (w *watchedQueue) knows(namespaces []string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range namespaces {
		if !w.namespaces[name] {
			return false
		}
	}
	return len(w.namespaces) == len(namespaces)
}

// quiet reports whether the queue has decided after its last event.
func (w *watchedQueue) quiet() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	woken := w.woken.Load()
	return !w.running && !w.again && (w.decided && w.decidedAt == woken || woken == 0)
}

func (w *watchedQueue) describe() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("got events of %d backups, running %v, again %v, woken %d, decided at %d, %d decisions",
		len(w.heard), w.running, w.again, w.woken.Load(), w.decidedAt, w.decisions)
}

// heardOf records events after inner has handled them.
func (w *watchedQueue) heardOf(inner handler.EventHandler) handler.EventHandler {
	note := func(object client.Object, deleted bool) {
		w.mu.Lock()
		switch _, ok := object.(*velerov1.Backup); {
		case ok && deleted:
			delete(w.heard, object.GetUID())
		case ok:
			w.heard[object.GetUID()] = max(w.heard[object.GetUID()], versionOf(object))
		case deleted:
			delete(w.namespaces, object.GetName())
		default:
			w.namespaces[object.GetName()] = true
		}
		w.mu.Unlock()
		w.observer.poke()
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, queue requests) {
			inner.Create(ctx, e, queue)
			note(e.Object, false)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, queue requests) {
			inner.Update(ctx, e, queue)
			if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
				note(e.ObjectOld, true)
			}
			note(e.ObjectNew, false)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, queue requests) {
			inner.Delete(ctx, e, queue)
			note(e.Object, true)
		},
	}
}
