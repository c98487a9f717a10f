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

// flaws returns one weakness for each rule of the observer. It shows that the observer detects a violation of the
// rule.
func flaws() map[string]flaw {
	return map[string]flaw{
		// Breaks: no overlap with a backup that holds a slot.
		"backups that are ready when the server starts are ignored": {admission: func(inner decider) decider {
			var mu sync.Mutex
			var admitted map[string]bool // by this server
			return decides(func(ctx context.Context, snapshot *queueadmission.Snapshot) (*queueadmission.Decision, error) {
				mu.Lock()
				defer mu.Unlock()
				seen := *snapshot
				seen.Ready = slices.DeleteFunc(slices.Clone(snapshot.Ready),
					func(b queueadmission.Backup) bool { return !admitted[b.Name] })
				decision, err := inner.Decide(ctx, &seen)
				if admitted == nil {
					admitted = map[string]bool{}
				}
				if err == nil {
					for _, name := range decision.Admit {
						admitted[name] = true
					}
				}
				return decision, err
			})
		}},
		// Breaks: each New backup is queued.
		"a stale cache and unconditional writes": {client: func(q *Controller, c client.Client) client.Client {
			return &staleClient{Client: c, queue: q}
		}},
		// Breaks: no backup waits that could run.
		"the end of a run causes no decision": {watch: ignoring(func(before, after *velerov1.Backup) bool {
			return before != nil && after != nil && before.Status.Phase == velerov1.BackupPhaseInProgress &&
				after.Status.Phase != velerov1.BackupPhaseInProgress
		})},
		// Breaks: backups pass through all phases, and positions are 1 to n.
		"writes of positions are lost": {client: func(_ *Controller, c client.Client) client.Client {
			return &forgetfulClient{Client: c}
		}},
		// Breaks: each waiting backup has the right reason.
		"narrow backups overtake a wide one": {admission: func(inner decider) decider {
			return decides(func(ctx context.Context, snapshot *queueadmission.Snapshot) (*queueadmission.Decision, error) {
				return overtaking(ctx, inner, snapshot)
			})
		}},
		// Breaks: no backup overtakes another that it overlaps.
		"the younger of two comes first": {admission: func(inner decider) decider {
			return decides(func(ctx context.Context, snapshot *queueadmission.Snapshot) (*queueadmission.Decision, error) {
				seen := *snapshot
				seen.Queued = slices.Clone(snapshot.Queued)
				slices.Reverse(seen.Queued)
				return inner.Decide(ctx, &seen)
			})
		}},
		// Breaks: each waiting backup has a reason.
		"no reason is written": {client: func(_ *Controller, c client.Client) client.Client { return silentClient{c} }},
	}
}

// TestAcceptQueue_ModelCatchesWeaknesses plants each weakness and runs the model in memory until a rule catches it.
func TestAcceptQueue_ModelCatchesWeaknesses(t *testing.T) {
	t.Parallel()
	admission := newAdmission(t, namespaceoverlap.Name, namespaceoverlap.Register())
	for name, planted := range flaws() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const lives, steps = 400, 50 // most are caught in the first sequence
			for seed := range uint64(lives) {
				if err := newMemoryModel(t, 1000+seed, admission, planted).live(steps); err != nil {
					require.NotErrorIs(t, err, context.DeadlineExceeded, "caught by a rule, not by the time limit")
					t.Logf("caught in life %d: %.120s", seed+1, err.Error())
					return
				}
			}
			require.Fail(t, "the weakness was not caught", "in %d lives", lives)
		})
	}
}

// decides is a policy made of a function.
type decides func(context.Context, *queueadmission.Snapshot) (*queueadmission.Decision, error)

// Decide implements decider.
func (d decides) Decide(ctx context.Context, snapshot *queueadmission.Snapshot) (*queueadmission.Decision, error) {
	return d(ctx, snapshot)
}

// ignoring drops events about Backups. before is nil for a new Backup, after for a deleted one.
func ignoring(
	to func(before, after *velerov1.Backup) bool,
) func(*Controller, handler.EventHandler) handler.EventHandler {
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

// staleClient lists the Backups in the state of the previous call, hides the queue's own writes from it, and writes
// without a condition.
type staleClient struct {
	client.Client
	queue *Controller

	mu   sync.Mutex
	last []velerov1.Backup
}

func (c *staleClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	backups, ok := list.(*velerov1.BackupList)
	if err := c.Client.List(ctx, list, opts...); err != nil || !ok {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue.view.mu.Lock()
	c.queue.view.known = nil
	c.queue.view.mu.Unlock()
	backups.Items, c.last = slices.Concat(c.last, onlyIn(backups.Items, c.last)), slices.Clone(backups.Items)
	return nil
}

// onlyIn returns the Backups of now that are not in before.
func onlyIn(now, before []velerov1.Backup) []velerov1.Backup {
	return slices.DeleteFunc(slices.Clone(now), func(b velerov1.Backup) bool {
		return slices.ContainsFunc(before, func(old velerov1.Backup) bool { return old.UID == b.UID })
	})
}

func (c *staleClient) Patch(ctx context.Context, obj client.Object, _ client.Patch, opts ...client.PatchOption) error {
	wanted, ok := obj.(*velerov1.Backup)
	if !ok {
		return errors.New("not a Backup")
	}
	var current velerov1.Backup
	if err := c.queue.Live.Get(ctx, client.ObjectKeyFromObject(obj), &current); err != nil {
		return err
	}
	before := current.DeepCopy()
	current.Status, current.Annotations = wanted.Status, wanted.Annotations
	if err := c.Client.Patch(ctx, &current, client.MergeFrom(before), opts...); err != nil {
		return err
	}
	*wanted = current
	return nil
}

// forgetfulClient drops every third write of a position and reports success.
type forgetfulClient struct {
	client.Client
	mu sync.Mutex
	n  int
}

func (f *forgetfulClient) Patch(
	ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption,
) error {
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

func (s silentClient) Patch(
	ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption,
) error {
	obj.SetAnnotations(nil)
	return s.Client.Patch(ctx, obj, patch, opts...)
}

// overtaking calls the policy for each queued backup alone, as if there were none ahead of it.
func overtaking(
	ctx context.Context, inner decider, snapshot *queueadmission.Snapshot,
) (*queueadmission.Decision, error) {
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
