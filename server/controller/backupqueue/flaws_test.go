package backupqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/plugins/queueadmission/namespaceoverlap"
	"github.com/cleat-dev/cleat/versioning/queueadmission"
)

// flaws are weaknesses that queues in the field have (facts/queue-and-soothing, A5, whose numbers they carry), as far as
// they can be planted here: those of a cache, of a tracker in memory, of events that wake nobody, of writes without a
// condition, and of policies. Others have no place to be planted in, or have tests of their own: 4 and 5 (a start and an
// end that cannot be written), 6 (nobody starts what is admitted), 11 (the cost, a benchmark), 13 (schedules), 14 (the
// place is the order), 16 (shared resources of running backups), 17 (the position in the resource definition), 18 (two
// servers).
func flaws() map[string]flaw {
	return map[string]flaw{
		"1: those that are ready when the server starts are forgotten": {admission: func(inner decider) decider {
			var mu sync.Mutex
			var mine map[string]bool // admitted by this server
			return decides(func(ctx context.Context, snapshot *queueadmission.Snapshot) (*queueadmission.Decision, error) {
				mu.Lock()
				defer mu.Unlock()
				seen := *snapshot
				seen.Ready = slices.DeleteFunc(slices.Clone(snapshot.Ready), func(b queueadmission.Backup) bool { return !mine[b.Name] })
				decision, err := inner.Decide(ctx, &seen)
				if mine == nil {
					mine = map[string]bool{}
				}
				if err == nil {
					for _, name := range decision.Admit {
						mine[name] = true
					}
				}
				return decision, err
			})
		}},
		"2: a ready one that is deleted keeps its place": {watch: deaf(func(before, after *velerov1.Backup) bool {
			return after == nil && before.Status.Phase == velerov1.BackupPhaseReadyToStart
		})},
		"3: places are counted before the write, in memory": {admission: func(inner decider) decider {
			var mu sync.Mutex
			var admitted, gone int
			return decides(func(ctx context.Context, snapshot *queueadmission.Snapshot) (*queueadmission.Decision, error) {
				mu.Lock()
				defer mu.Unlock()
				// Whatever was admitted once counts until it was seen running.
				gone = max(gone, len(snapshot.Running))
				seen := *snapshot
				seen.Limit = max(1, snapshot.Limit-max(0, admitted-gone-len(snapshot.Ready)))
				decision, err := inner.Decide(ctx, &seen)
				if err == nil {
					admitted += len(decision.Admit)
				}
				return decision, err
			})
		}},
		"7: a cache that is behind, and writes without a condition": {client: func(q *Controller, c client.Client) client.Client {
			return &behind{Client: c, queue: q, blind: true}
		}},
		"8: a write that takes back what somebody else wrote": {client: func(q *Controller, c client.Client) client.Client {
			return &behind{Client: c, queue: q, blind: true, rarely: true}
		}},
		"9a: validation that fails wakes nobody": {watch: deaf(func(before, after *velerov1.Backup) bool {
			return after != nil && before != nil && after.Status.Phase == velerov1.BackupPhaseFailedValidation
		})},
		"9b: a deletion wakes nobody": {watch: deaf(func(_, after *velerov1.Backup) bool { return after == nil })},
		"9c: the end of a run wakes nobody": {watch: deaf(func(before, after *velerov1.Backup) bool {
			return before != nil && after != nil && before.Status.Phase == velerov1.BackupPhaseInProgress && after.Status.Phase != velerov1.BackupPhaseInProgress
		})},
		"10: a place that could not be written is passed over": {client: func(_ *Controller, c client.Client) client.Client { return &forgetful{Client: c} }},
		"12: narrow backups overtake a wide one": {admission: func(inner decider) decider {
			return decides(func(ctx context.Context, snapshot *queueadmission.Snapshot) (*queueadmission.Decision, error) {
				return overtaking(ctx, inner, snapshot)
			})
		}},
		"15: the older of two does not come first": {admission: func(inner decider) decider {
			return decides(func(ctx context.Context, snapshot *queueadmission.Snapshot) (*queueadmission.Decision, error) {
				seen := *snapshot
				seen.Queued = slices.Clone(snapshot.Queued)
				slices.Reverse(seen.Queued)
				return inner.Decide(ctx, &seen)
			})
		}},
		"19: nobody says why a backup waits": {client: func(_ *Controller, c client.Client) client.Client { return silentClient{c} }},
	}
}

// TestAcceptQueue_ModelCatchesWeaknesses plants each weakness, and lives until the rules catch it.
func TestAcceptQueue_ModelCatchesWeaknesses(t *testing.T) {
	t.Parallel()
	admission := newAdmission(t, namespaceoverlap.Name, namespaceoverlap.Register())
	for name, planted := range flaws() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const lives, steps = 400, 50 // most are caught in the first life, whatever the speed: each step waits for the rest
			for seed := range uint64(lives) {
				if err := newModel(t, 1000+seed, admission, planted).live(steps); err != nil {
					require.NotErrorIs(t, err, context.DeadlineExceeded, "caught by a rule, not by patience")
					t.Logf("caught in life %d: %.120s", seed+1, err.Error())
					return
				}
			}
			require.Fail(t, "it was not caught", "in %d lives", lives)
		})
	}
}

// decides is a policy that is a function.
type decides func(context.Context, *queueadmission.Snapshot) (*queueadmission.Decision, error)

// Decide implements decider.
func (d decides) Decide(ctx context.Context, snapshot *queueadmission.Snapshot) (*queueadmission.Decision, error) {
	return d(ctx, snapshot)
}

// deaf keeps some events about Backups from the queue. The old state of a new one, and the new of a deleted one, is nil.
func deaf(to func(before, after *velerov1.Backup) bool) func(*Controller, handler.EventHandler) handler.EventHandler {
	backup := func(object client.Object) *velerov1.Backup { b, _ := object.(*velerov1.Backup); return b }
	return func(_ *Controller, inner handler.EventHandler) handler.EventHandler {
		return handler.Funcs{
			CreateFunc: func(ctx context.Context, e event.CreateEvent, queue requests) {
				if !to(nil, backup(e.Object)) {
					inner.Create(ctx, e, queue)
				}
			},
			UpdateFunc: func(ctx context.Context, e event.UpdateEvent, queue requests) {
				if !to(backup(e.ObjectOld), backup(e.ObjectNew)) {
					inner.Update(ctx, e, queue)
				}
			},
			DeleteFunc: func(ctx context.Context, e event.DeleteEvent, queue requests) {
				if !to(backup(e.Object), nil) {
					inner.Delete(ctx, e, queue)
				}
			},
		}
	}
}

// behind shows the Backups of one look ago, forgets what the queue has written itself, and writes whatever was there.
type behind struct {
	client.Client
	queue  *Controller
	blind  bool
	rarely bool // only each third look

	mu    sync.Mutex
	looks int
	last  []velerov1.Backup
}

func (b *behind) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	backups, ok := list.(*velerov1.BackupList)
	if err := b.Client.List(ctx, list, opts...); err != nil || !ok {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looks++
	if b.rarely && b.looks%3 != 0 {
		b.last = slices.Clone(backups.Items)
		return nil
	}
	b.queue.view.mu.Lock()
	b.queue.view.known = nil
	b.queue.view.mu.Unlock()
	backups.Items, b.last = slices.Concat(b.last, onlyIn(backups.Items, b.last)), slices.Clone(backups.Items)
	return nil
}

// onlyIn are those of now that were not there before.
func onlyIn(now, before []velerov1.Backup) []velerov1.Backup {
	return slices.DeleteFunc(slices.Clone(now), func(b velerov1.Backup) bool {
		return slices.ContainsFunc(before, func(old velerov1.Backup) bool { return old.UID == b.UID })
	})
}

func (b *behind) Patch(ctx context.Context, obj client.Object, _ client.Patch, opts ...client.PatchOption) error {
	var there velerov1.Backup
	if err := b.Get(ctx, client.ObjectKeyFromObject(obj), &there); err != nil {
		return err
	}
	before := there.DeepCopy()
	if wanted, ok := obj.(*velerov1.Backup); ok && b.blind {
		there.Status, there.Annotations = wanted.Status, wanted.Annotations
		if err := b.Client.Patch(ctx, &there, client.MergeFrom(before), opts...); err != nil {
			return err
		}
		*wanted = there
		return nil
	}
	return errors.New("no Backup")
}

// forgetful does not write each third place, and says that it has.
type forgetful struct {
	client.Client
	mu sync.Mutex
	n  int
}

func (f *forgetful) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	b, ok := obj.(*velerov1.Backup)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	if ok && b.Status.Phase == velerov1.BackupPhaseQueued && f.n%3 == 0 {
		return nil
	}
	return f.Client.Patch(ctx, obj, patch, opts...)
}

// silentClient writes no reasons.
type silentClient struct{ client.Client }

func (s silentClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	obj.SetAnnotations(nil)
	return s.Client.Patch(ctx, obj, patch, opts...)
}

// overtaking asks the policy about each queued backup alone, as if nobody stood before it.
func overtaking(ctx context.Context, inner decider, snapshot *queueadmission.Snapshot) (*queueadmission.Decision, error) {
	all := &queueadmission.Decision{}
	seen := *snapshot
	for i := range snapshot.Queued {
		seen.Queued = snapshot.Queued[i : i+1]
		one, err := inner.Decide(ctx, &seen)
		if err != nil {
			return nil, fmt.Errorf("about %s: %w", snapshot.Queued[i].Name, err)
		}
		if len(one.Admit) > 0 {
			seen.Ready = append(slices.Clone(seen.Ready), snapshot.Queued[i])
		}
		all.Admit = append(all.Admit, one.Admit...)
		all.Waiting = append(all.Waiting, one.Waiting...)
	}
	return all, nil
}
