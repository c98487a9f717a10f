package restores

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/hook"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/internal/kube/waits"
)

// finalWaits are what restores wait for whose runs have ended, in this process.
type finalWaits struct {
	mu sync.Mutex
	by map[types.UID]*finalWait
}

// finalWait is what one restore waits for, beside its hooks. Only one goroutine at a time looks after a restore.
type finalWait struct {
	since  time.Time // when it began to wait
	list   *waits.List
	claims map[types.NamespacedName]*waits.Wait // that are not bound
	shown  time.Time                            // when the annotation was written last

	settled bool            // it does not wait for volumes any more
	volumes results.Results // what became of the volumes, once it is settled
}

// of returns what a restore waits for. It begins to wait with the first call.
func (w *finalWaits) of(restore types.UID, log hclog.Logger, now time.Time) *finalWait {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by == nil {
		w.by = map[types.UID]*finalWait{}
	}
	if w.by[restore] == nil {
		w.by[restore] = &finalWait{since: now, list: waits.New(), claims: map[types.NamespacedName]*waits.Wait{}}
		w.by[restore].list.LogTo(log)
	}
	return w.by[restore]
}

// forget ends all waits of a restore.
func (w *finalWaits) forget(restore types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.by[restore]; known != nil {
		known.forClaims(nil)
	}
	delete(w.by, restore)
}

// forClaims makes the claims those that are waited for.
func (w *finalWait) forClaims(claims []types.NamespacedName) {
	open := map[types.NamespacedName]*waits.Wait{}
	for _, claim := range claims {
		if open[claim] = w.claims[claim]; open[claim] == nil {
			open[claim] = w.list.Begin("persistent volume claim %s to be bound", claim)
		}
	}
	maps.DeleteFunc(w.claims, func(claim types.NamespacedName, _ *waits.Wait) bool { return open[claim] != nil })
	for _, over := range w.claims {
		over.End()
	}
	w.claims = open
}

// wait returns when to look at the restore again. It writes what the restore waits for to its annotations, if that has
// changed and was not written a moment ago.
func (r *Finalizer) wait(
	ctx context.Context, restore *velerov1.Restore, hooks *hook.Restore, log hclog.Logger,
) (ctrl.Result, error) {
	again := ctrl.Result{RequeueAfter: hooksPause}
	waiting := r.waits.of(restore.UID, log, r.Now())
	lists := []*waits.List{waiting.list}
	if hooks != nil {
		lists = append(lists, hooks.Waits())
	}
	text := run.WaitsText(lists...)
	if text == restore.Annotations[velerov1.WaitsAnnotation] || r.Now().Sub(waiting.shown) < run.WaitsPeriod {
		return again, nil
	}
	waiting.shown = r.Now()
	before := restore.DeepCopy()
	run.SetWaits(restore, text)
	err := r.Patch(ctx, restore, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return ctrl.Result{}, fmt.Errorf("write what the restore waits for: %w", err)
	}
	return again, nil
}
