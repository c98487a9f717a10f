package backupqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/policy"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost/calls"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
	"github.com/cleat-dev/cleat/versioning/queueadmission"
)

// Admission decides which queued backups may start. It is the configured policy together with its failure policy. The
// decision obeys the rules of the hub; the queue may modify it.
type Admission interface {
	Decide(ctx context.Context, snapshot *queueadmission.Snapshot) (policy.Outcome[*queueadmission.Decision], error)
}

// retryDelay is the time until the next decision if one was not carried out completely.
const retryDelay = time.Millisecond

// reasonUndecided is the reason of backups that wait because the policy fails.
const reasonUndecided = "PolicyFailed"

// Controller moves Backups from New to Queued, and to ReadyToStart when the policy admits them.
//
// The Backups are its whole state. Each decision is made on one view of all Backups and carried out by one conditional
// write for each Backup that changes. Only the leading server makes decisions, one at a time.
type Controller struct {
	*run.Cluster
	Admission Admission
	Locations *Locations    // nil starts backups in any location
	Limit     int           // of backups that are ready or run, at least 1
	Sweep     time.Duration // the time between two decisions without an event; 0 for never
	Exact     queue.Exact   // selects the positions that are kept exact
	Pace      Pace          // of writing positions
	Events    events.EventRecorder
	Metrics   *Metrics
	Log       hclog.Logger
	Now       func() time.Time

	view     view
	resolver queue.Resolver
	failure  failure
	backlog  backlog
	refusals refusals
	slots    slots
	standing bool          // the backups that waited before this process started were logged
	woken    atomic.Uint64 // counts the events on which a decision depends
}

// Reconcile makes one decision and carries it out. It writes the admitted backups first, then the backups that enter
// the queue, and the positions of the others when Pace allows it. It stops writing positions when an event requires
// another decision.
func (q *Controller) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	q.slots.deciding.Lock()
	defer q.slots.deciding.Unlock()
	woken := q.woken.Load()
	line, err := q.line(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	q.slots.keep(line)
	asked, refused := q.refusals.take(&line, q.Now())
	q.Metrics.line(line, refused)
	if len(line.Queued) == 0 {
		q.backlog.clear()
		return ctrl.Result{RequeueAfter: soonest(q.Sweep, asked)}, nil
	}
	located, err := q.setAside(ctx, &line)
	if err != nil {
		return ctrl.Result{}, err
	}
	namespaces, labels, err := q.namespaces(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	started := q.Now()
	outcome, errDecide := q.Admission.Decide(ctx, queue.WithLabels(q.resolver.Snapshot(line.Considered(), namespaces,
		max(1, q.Limit), started), labels))
	q.Metrics.decided(q.Now().Sub(started))
	if ctx.Err() != nil {
		return ctrl.Result{}, ctx.Err()
	}
	work := q.plan(line, outcome, errDecide, woken)
	pause := q.backlog.pause(q.Pace, work.moves(), q.Now())
	done, err := q.carryOut(ctx, line, work, woken, pause > 0)
	if done {
		q.Metrics.planned(line, work.Plan)
	}
	recheck := soonest(q.Sweep, asked, located, pause)
	held := errors.Is(errDecide, policy.ErrHeld) // logged already
	if !held {
		err = errors.Join(err, errDecide)
	}
	switch {
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("decide about the queue: %w", err)
	case !done:
		return ctrl.Result{RequeueAfter: retryDelay}, nil
	case held:
		return ctrl.Result{RequeueAfter: soonest(policy.RetryAfter, recheck)}, nil
	case outcome.Failure != nil:
		return ctrl.Result{RequeueAfter: soonest(policy.RetryAfter, outcome.Decision.RecheckAfter, recheck)}, nil
	}
	return ctrl.Result{RequeueAfter: soonest(outcome.Decision.RecheckAfter, recheck)}, nil
}

// work is a plan with its origin.
type work struct {
	queue.Plan
	by      string // the plugin that decided; empty if none did
	failing string // the failure of the configured policy; empty without one
}

// moves reports whether the plan changes positions or reasons of backups that are already in the queue.
func (w *work) moves() bool {
	return slices.ContainsFunc(w.Place, func(p queue.Placement) bool { return !p.Enters() })
}

// plan returns the plan for a decision. If the configured policy has failed, the failure is the reason of the waiting
// backups.
func (q *Controller) plan(
	line queue.Line, outcome policy.Outcome[*queueadmission.Decision], errDecide error, woken uint64,
) work {
	if errDecide != nil {
		failing := q.failure.describe(errDecide, woken)
		return work{Plan: queue.Hold(line, reasonUndecided, "nothing is decided: "+failing, q.Exact, q.Now()),
			failing: failing}
	}
	failing := q.failure.describe(outcome.Failure, woken)
	if failing != "" {
		for i := range outcome.Decision.Waiting {
			waiting := &outcome.Decision.Waiting[i]
			waiting.Message = fmt.Sprintf("%s; %s decided, because of %s", waiting.Message, outcome.By, failing)
		}
	}
	return work{Plan: queue.NewPlan(line, outcome.Decision, outcome.By, q.Exact, q.Now()), by: outcome.By,
		failing: failing}
}

// failure is the last failure of the policy.
type failure struct {
	woken  uint64
	reason string
	text   string
}

// describe returns err in one line, or "" for nil. The text stays the same while the policy fails for the same reason
// without an event in between, because a new text is written to all waiting backups.
func (f *failure) describe(err error, woken uint64) string {
	reason := policy.ReasonOf(err)
	switch {
	case err == nil:
		*f = failure{}
	case f.text == "" || f.woken != woken || f.reason != reason:
		*f = failure{woken: woken, reason: reason, text: oneLine(calls.WithoutStderr(err))}
	}
	return f.text
}

// soonest returns the shortest of some durations, where 0 means never.
func soonest(times ...time.Duration) (first time.Duration) {
	for _, t := range times {
		if first == 0 || t != 0 && t < first {
			first = t
		}
	}
	return first
}

// batch is the minimum number of positions that are written before an event is handled, so that all positions become
// right even under a constant stream of events.
const batch = 8

// carryOut writes a plan. done is false if another client has changed a backup or an event requires another decision.
// If later is set, carryOut leaves the positions of Queued backups to a later decision.
func (q *Controller) carryOut(
	ctx context.Context, line queue.Line, work work, woken uint64, later bool,
) (done bool, err error) {
	last := len(line.Queued)
	refused := false
	for _, b := range work.Admit {
		if b, err := q.admit(ctx, b, last, work); run.Refused(err) {
			q.refused(b, err)
			refused = true // another backup may have the slot
		} else if err != nil {
			return false, q.failed(err)
		}
	}
	written := 0
	for _, placement := range work.Place {
		if later && !placement.Enters() {
			continue
		}
		if written >= batch && q.woken.Load() != woken {
			return false, nil
		}
		if err := q.place(ctx, placement, work); run.Refused(err) {
			q.refused(placement.Backup, err)
			refused = true
		} else if err != nil {
			return false, q.failed(err)
		}
		written++
	}
	q.logStanding(line, work.Plan)
	if !later {
		q.backlog.clear()
		q.refusals.carriedOut()
	}
	return !refused, nil
}

// admit makes b ready to start and returns its new state. A New backup is queued first, behind all others.
func (q *Controller) admit(ctx context.Context, b *velerov1.Backup, last int, work work) (*velerov1.Backup, error) {
	if run.BackupPhase(b) == velerov1.BackupPhaseNew {
		queued, err := q.write(ctx, b, func(b *velerov1.Backup) error {
			b.Status.Phase, b.Status.QueuePosition = velerov1.BackupPhaseQueued, last
			return nil
		})
		if err != nil {
			return b, err
		}
		b = queued
	}
	q.slots.give(b.UID) // before the write, whose event may arrive before the reply
	ready, err := q.write(ctx, b, func(b *velerov1.Backup) error { queue.Admit(b); return nil })
	if err != nil {
		return b, err
	}
	waited := max(0, q.Now().Sub(b.CreationTimestamp.Time))
	q.Metrics.admitted(waited)
	log := q.Log.With("backup", b.Namespace+"/"+b.Name, "waited", waited.Round(time.Second), "policy", work.by)
	if work.failing != "" {
		log = log.With("because", work.failing)
	}
	log.Info("backup admitted")
	return ready, nil
}

// place writes the position of a backup and the reason why it waits.
func (q *Controller) place(ctx context.Context, p queue.Placement, work work) error {
	b, err := q.write(ctx, p.Backup, p.Apply)
	if err != nil {
		return err
	}
	if p.Announce {
		kind, reason := corev1.EventTypeNormal, "Queued"
		switch {
		case p.Wait.Policy == queue.ByServer:
			kind, reason = corev1.EventTypeWarning, p.Wait.Reason
		case work.failing != "":
			kind, reason = corev1.EventTypeWarning, reasonUndecided
		}
		q.Events.Eventf(b, nil, kind, reason, "Queue", "%s",
			oneLine(fmt.Sprintf("position %d in the queue: %s", p.Position, p.Wait.Message)))
	}
	if p.Announce || waitsForOther(p.Backup, &p.Wait) {
		q.logWait(b, p.Position, &p.Wait)
	}
	return nil
}

// write changes b by one conditional write and returns the new state.
func (q *Controller) write(
	ctx context.Context, b *velerov1.Backup, change func(*velerov1.Backup) error,
) (*velerov1.Backup, error) {
	wanted := b.DeepCopy()
	run.DropCreatedStatus(wanted)
	if err := change(wanted); err != nil {
		return nil, err
	}
	if velerov1.IsAsCreated(b) && equality.Semantic.DeepEqual(b.Status, wanted.Status) {
		// Its creator has written the same. The API server counts nothing that is no change, and the backup would stay New
		// forever; the next decision writes the position.
		wanted.Status.QueuePosition++
	}
	if from, to := run.BackupPhase(b), run.BackupPhase(wanted); from != to {
		if err := run.CheckBackupTransition(from, to); err != nil {
			return nil, err
		}
	}
	q.view.writing.Lock()
	defer q.view.writing.Unlock()
	err := q.Patch(ctx, wanted, client.MergeFromWithOptions(b, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err):
		return nil, run.ErrPhaseChanged
	case apierrors.IsNotFound(err):
		return nil, run.ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("write backup %s: %w", b.Name, err)
	}
	q.view.wrote(wanted)
	q.refusals.forget(b.UID)
	return wanted, nil
}

// failed handles the failure of a write. The next decision reads from the API server, because the write may have been
// carried out. A conflict with another client is not an error; it only leads to another decision.
func (q *Controller) failed(err error) error {
	q.view.doubt()
	if errors.Is(err, run.ErrPhaseChanged) || errors.Is(err, run.ErrNotFound) {
		return nil
	}
	return err
}

func (q *Controller) line(ctx context.Context) (queue.Line, error) {
	backups, err := q.view.backups(ctx, q.Cluster)
	if err != nil {
		return queue.Line{}, fmt.Errorf("list the backups: %w", err)
	}
	line := queue.NewLine(backups)
	line.Restoring, err = q.restores(ctx)
	return line, err
}

func (q *Controller) restores(ctx context.Context) ([]*velerov1.Restore, error) {
	var list velerov1.RestoreList
	if err := q.List(ctx, &list, client.InNamespace(q.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the restores: %w", err)
	}
	return queue.RunningRestores(list.Items), nil
}

// namespaces returns the names and the labels of all namespaces. The labels are the cache's: nobody may change them.
func (q *Controller) namespaces(ctx context.Context) (names []string, labels map[string]map[string]string, err error) {
	list := namespaceList()
	if err := q.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("list the namespaces: %w", err)
	}
	labels = make(map[string]map[string]string, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
		labels[list.Items[i].Name] = list.Items[i].Labels
	}
	return names, labels, nil
}

func namespaceList() *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	return list
}

// oneLine returns text as one line of limited length.
func oneLine(text string) string {
	return shorten.Text(strings.Join(strings.Fields(text), " "), 512)
}
