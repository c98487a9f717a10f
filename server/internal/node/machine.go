package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/node/loadpod"
)

// retryDelay is the time until the next attempt for a load that waits for something without an event.
const retryDelay = 5 * time.Second

// soon is the time until the next attempt for a load whose volume is being exposed or handed over, or that another
// client has changed.
const soon = time.Second

// explainAfter is how long a load is Accepted before the reason is written into its status.
const explainAfter = 30 * time.Second

// machine takes the loads of one kind from Accepted to their end.
type machine struct {
	*Agent
	kind    *kind
	reasons reasons
}

// ofPod returns the loads that wait for a pod.
func (m *machine) ofPod(ctx context.Context, pod client.Object) []ctrl.Request {
	if kind, name := loadpod.OfLoad(pod); kind == m.kind.name && pod.GetNamespace() == m.Namespace {
		return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: m.Namespace, Name: name}}}
	}
	if m.kind.podLabel != "" {
		name := pod.GetLabels()[m.kind.podLabel]
		if name == "" || pod.GetNamespace() != m.Namespace {
			return nil
		}
		return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: m.Namespace, Name: name}}}
	}
	loads, err := m.loads(ctx, m.kind)
	if err != nil {
		return nil
	}
	var requests []ctrl.Request
	for _, l := range loads {
		if l.spec.pod.UID == pod.GetUID() && l.phase() == velerov1.LoadPhaseAccepted {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(l.Object)})
		}
	}
	return requests
}

// Reconcile advances one load as far as possible. After an error, it is called again.
func (m *machine) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := m.kind.object()
	err := m.Get(ctx, request.NamespacedName, object)
	if apierrors.IsNotFound(err) {
		m.forget(ctx, request.Name, "")
		m.Metrics.forget(m.kind, request.Name)
		return ctrl.Result{}, nil // the garbage collector deletes its pods
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	m.forget(ctx, request.Name, object.GetUID())
	l := newLoad(m.kind, object)
	if !l.status.Phase.Terminal() {
		if err := m.prove(ctx, l); err != nil {
			return ctrl.Result{}, err
		}
	}
	after, err := m.step(ctx, l)
	m.Metrics.move(m.slots.moving())
	if wait, pending := errors.AsType[Pending](err); pending && l.phase() == velerov1.LoadPhaseAccepted {
		err = cmp.Or(m.explain(ctx, l, string(wait)), err)
	}
	if _, pending := errors.AsType[Pending](err); pending || superseded(err) {
		return ctrl.Result{RequeueAfter: soon}, nil // an event, if there is one, comes earlier
	}
	return ctrl.Result{RequeueAfter: after}, err
}

// step makes at most one write of the load. It returns the time until the next attempt without an event, or 0 for none.
func (m *machine) step(ctx context.Context, l *load) (time.Duration, error) {
	if err := m.sweep(ctx, l); err != nil {
		return 0, err
	}
	if t := m.slots.of(l.GetUID()); t != nil {
		return m.follow(ctx, l, t)
	}
	if l.proof.refused != "" {
		return 0, nil // the admission ends it
	}
	if reason, is := m.isTurnedAway(l); is {
		if l.node() != m.Node && l.acceptedBy() != m.Node {
			return 0, nil
		}
		_, err := m.end(ctx, l, failed(reason))
		return 0, err
	}
	switch l.phase() {
	case velerov1.LoadPhaseNew:
		return m.guard(ctx, l)
	case velerov1.LoadPhaseAccepted:
		return m.prepare(ctx, l)
	case velerov1.LoadPhasePrepared:
		if l.node() == m.Node {
			return m.begin(ctx, l)
		}
		return m.guard(ctx, l)
	case velerov1.LoadPhaseInProgress, velerov1.LoadPhaseCanceling:
		if l.node() == m.Node {
			return m.resume(ctx, l)
		}
		return m.guard(ctx, l)
	}
	return 0, nil
}

// prepare moves an Accepted load to Prepared, on the node where its volume can be opened.
func (m *machine) prepare(ctx context.Context, l *load) (time.Duration, error) {
	mine := l.acceptedBy() == m.Node
	if mine && l.cancelled() {
		_, err := m.end(ctx, l, canceled(l))
		return 0, err
	}
	left := m.PrepareTimeout - m.Now().Sub(l.acceptedAt())
	var exposing error
	again := retryDelay
	if mine && m.Exposers[l.name] != nil {
		exposing, again = m.expose(ctx, l), soon
	}
	opened, wait, err := m.exposed(ctx, l)
	_ = opened.Close() // the transfer opens it again
	if final, ends := errors.AsType[*Final](cmp.Or(exposing, err)); mine && ends {
		_, err := m.end(ctx, l, failed(final.Error()))
		return 0, err
	}
	switch {
	case err == nil && wait == "":
		_, err := m.write(ctx, l, func(l *load) {
			l.status.Phase, l.status.Message = velerov1.LoadPhasePrepared, ""
			if at := l.place(l.Object).node; at != nil {
				*at = m.Node
			}
		})
		return 0, err
	case !mine:
		return m.guard(ctx, l) // if the pod comes to this node, its events follow
	}
	if err = cmp.Or(exposing, err); err != nil {
		wait = err.Error()
	}
	if l.podLabel == "" {
		if gone, err := m.podGone(ctx, l); err != nil || gone != "" {
			if err == nil {
				_, err = m.end(ctx, l, failed(gone))
			}
			return 0, err
		}
	}
	if left <= 0 {
		_, err := m.end(ctx, l, failed(fmt.Sprintf("timeout on preparing %s: %s after %s", l.name, wait, m.PrepareTimeout)))
		return 0, err
	}
	return min(left, again), m.explain(ctx, l, wait)
}

// explain writes the reason why an Accepted load waits into its status, if the load has waited for long.
func (m *machine) explain(ctx context.Context, l *load, reason string) error {
	now := m.Now()
	if l.status.Message == reason || now.Sub(l.acceptedAt()) < explainAfter || !m.reasons.may(l.GetUID(), now) {
		return nil
	}
	_, err := m.write(ctx, l, func(l *load) { l.status.Message = reason })
	return err
}

// reasons records when the reason why a load waits was last written, by the UID of the load.
type reasons struct {
	mu      sync.Mutex
	written map[types.UID]time.Time
}

// may reports whether a new reason of a load may be written now, and records the time if so.
func (r *reasons) may(uid types.UID, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.written, func(_ types.UID, at time.Time) bool { return now.Sub(at) >= rewrite })
	if _, recent := r.written[uid]; recent {
		return false
	}
	if r.written == nil {
		r.written = map[types.UID]time.Time{}
	}
	r.written[uid] = now
	return true
}

// expose continues to make the volume of an Accepted load accessible. If another agent has ended the load meanwhile,
// expose removes what this call may have made.
func (m *machine) expose(ctx context.Context, l *load) error {
	exposer := m.Exposers[l.name]
	err := exposer.Expose(ctx, l.copy().Object)
	if _, pending := errors.AsType[Pending](err); err != nil && !pending {
		m.Log.Warn("the volume of a load is not exposed yet", "kind", l.name, "name", l.GetName(), "error", err)
	}
	now := m.kind.object()
	switch known := m.Live.Get(ctx, client.ObjectKeyFromObject(l.Object), now); {
	case apierrors.IsNotFound(known):
	case known != nil:
		return known
	case now.GetUID() == l.GetUID() && !m.kind.status(now).Phase.Terminal():
		return err
	}
	if err := exposer.Release(ctx, l.copy().Object, false); err != nil {
		return err
	}
	return Pending("another agent has ended it")
}

// podGone returns why the pod of a load will not be on this node any more, or "" if it may still be.
func (m *machine) podGone(ctx context.Context, l *load) (string, error) {
	var pod corev1.Pod
	of := l.spec.pod
	err := m.Live.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: of.Name}, &pod)
	switch {
	case apierrors.IsNotFound(err) || err == nil && of.UID != "" && pod.UID != of.UID:
		return fmt.Sprintf("pod %s/%s does not exist any more", of.Namespace, of.Name), nil
	case err != nil:
		return "", err
	case pod.Spec.NodeName != m.Node:
		return fmt.Sprintf("pod %s/%s runs on node %q, not on %s", of.Namespace, of.Name, pod.Spec.NodeName, m.Node), nil
	}
	return "", nil
}

// begin gives a Prepared load a slot, if it is the load's turn, and starts the transfer.
func (m *machine) begin(ctx context.Context, l *load) (time.Duration, error) {
	if l.cancelled() {
		_, err := m.end(ctx, l, canceled(l))
		return 0, err
	}
	from, wait, err := m.exposed(ctx, l)
	moving := false
	defer func() {
		if !moving {
			_ = from.Close()
		}
	}()
	if final, ends := errors.AsType[*Final](err); ends {
		_, err := m.end(ctx, l, failed(final.Error()))
		return 0, err
	}
	switch {
	case err != nil:
		return 0, err
	case wait != "" && l.podLabel != "":
		return 0, m.exposeAgain(ctx, l,
			outcome{lost: true, message: "its volume was accessible and is not any more: " + wait})
	case wait != "":
		_, err := m.end(ctx, l, failed("its volume was accessible and is not any more: "+wait))
		return 0, err
	}
	waiting, interrupted, err := m.onNode(ctx)
	if err != nil || !m.isNext(l, waiting, interrupted) {
		return retryDelay, err
	}
	t := m.slots.take(l, interrupted)
	if t == nil {
		return retryDelay, nil // the load that frees a slot wakes the next one
	}
	first := l.GetAnnotations()[velerov1.LoadAttemptAnnotation] == ""
	started, err := m.write(ctx, l, func(l *load) {
		l.status.Phase, l.status.StartTimestamp = velerov1.LoadPhaseInProgress, run.Timestamp(m.Now())
		l.setAttempt(l.attempt())
		mark(l.Object, false)
	})
	if err != nil {
		m.free(ctx, l)
		return 0, err
	}
	m.Log.Info("load started", "kind", l.name, "name", l.GetName(), "attempt", started.attempt())
	moving = true
	m.start(started, from, t, !first)
	if first {
		run.ReportGaps(m.Events, started.Object, "Move", m.UnknownFields(ctx, started.Object, m.Log))
	}
	return 0, nil
}

// isNext reports whether a Prepared load is among the oldest of this node that fit into the free slots.
func (m *machine) isNext(l *load, waiting []*load, interrupted int) bool {
	older := 0
	for _, other := range waiting {
		if other.compare(l) < 0 && other.GetUID() != l.GetUID() {
			older++
		}
	}
	return older < m.slots.free(interrupted)
}

// onNode returns the Prepared loads of this node without a slot, the oldest first, and the number of loads whose
// movement an earlier process has begun, and which this one has not resumed yet.
func (a *Agent) onNode(ctx context.Context) (waiting []*load, interrupted int, err error) {
	for _, k := range a.kinds {
		loads, err := a.loads(ctx, k)
		if err != nil {
			return nil, 0, err
		}
		for _, l := range loads {
			switch {
			case l.node() != a.Node || a.slots.of(l.GetUID()) != nil:
			case l.phase() == velerov1.LoadPhasePrepared:
				waiting = append(waiting, l)
			case l.phase() == velerov1.LoadPhaseInProgress || l.phase() == velerov1.LoadPhaseCanceling:
				interrupted++
			}
		}
	}
	slices.SortFunc(waiting, (*load).compare)
	return waiting, interrupted, nil
}

// free frees the slot of a load and wakes the loads that can have it.
func (a *Agent) free(ctx context.Context, l *load) {
	a.slots.release(l.GetUID())
	a.wakeNext(ctx)
}

// wakeNext wakes the loads that can take the free slots.
func (a *Agent) wakeNext(ctx context.Context) {
	waiting, interrupted, err := a.onNode(ctx)
	if err != nil {
		return // they are reconciled again after retryDelay
	}
	for _, l := range waiting[:min(len(waiting), max(0, a.slots.free(interrupted)))] {
		a.slots.wake(l.name, l.Object)
	}
}

// follow writes the progress or the end of a load with a slot.
func (m *machine) follow(ctx context.Context, l *load, t *transfer) (time.Duration, error) {
	phase := l.phase()
	if phase == velerov1.LoadPhasePrepared {
		return time.Second, nil // the cache does not have the start yet
	}
	ended := m.slots.ended(t)
	switch {
	case phase != velerov1.LoadPhaseInProgress && phase != velerov1.LoadPhaseCanceling:
		if m.slots.drop(l.GetUID(), errSuperseded) {
			m.wakeNext(ctx)
		}
		return 0, nil
	case ended != nil && ended.lost:
		return m.again(ctx, l, t, *ended)
	case ended != nil:
		_, err := m.end(ctx, l, *ended)
		if err == nil {
			m.free(ctx, l)
		}
		return 0, err
	case l.proof.refused != "":
		t.stop(errChanged)
		return 0, nil
	case l.cancelled():
		t.stop(errCancelled)
		if phase == velerov1.LoadPhaseInProgress {
			_, err := m.write(ctx, l, func(l *load) { l.status.Phase = velerov1.LoadPhaseCanceling })
			return 0, err
		}
		return 0, nil
	}
	return progressPeriod, m.report(ctx, l, t)
}

// report writes the progress of a transfer, or why its data is not moved yet.
func (m *machine) report(ctx context.Context, l *load, t *transfer) error {
	t.stating.Lock()
	defer t.stating.Unlock()
	done, total := t.done.Load(), t.total.Load()
	progress := velerov1.LoadProgress{TotalBytes: max(total, l.status.Progress.TotalBytes),
		BytesDone: max(done, l.status.Progress.BytesDone)}
	before, message := l.status.Message, t.message(l, m.Now())
	switch {
	case t.maintained:
		message = run.WaitsForMaintenance
	case before == run.WaitsForMaintenance:
		message = ""
	case message != before && !m.reasons.may(l.GetUID(), m.Now()):
		message = before
	}
	if progress == l.status.Progress && message == before {
		return nil
	}
	_, err := m.write(ctx, l, func(l *load) { l.status.Progress, l.status.Message = progress, message })
	return err
}

// sweep deletes the pods of a load that has ended, and those of its former attempts.
func (m *machine) sweep(ctx context.Context, l *load) error {
	switch {
	case m.Pods == nil:
		return nil
	case l.status.Phase.Terminal():
		return m.Pods.Sweep(ctx, l.GetUID(), math.MaxInt)
	default:
		return m.Pods.Sweep(ctx, l.GetUID(), l.attempt())
	}
}

// forget stops the transfers of loads that were deleted, or replaced by another load of the same name. uid is the UID
// of the existing load.
func (m *machine) forget(ctx context.Context, name string, uid types.UID) {
	for _, gone := range m.slots.others(m.kind.name, name, uid) {
		if m.slots.drop(gone, errDeleted) {
			m.wakeNext(ctx)
		}
	}
}
