package run

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/kube/waits"
)

const (
	// progressPeriod is the shortest time between two writes of status.progress.
	progressPeriod = time.Second
	// WaitsPeriod is the shortest time between two writes that change only what a run waits for.
	WaitsPeriod = 5 * time.Second
)

// Progress writes the progress of a run to its custom resource: the numbers of items to status.progress, and the
// numbers of its operations beside it. What the run waits for is written to an annotation.
type Progress[T any] struct {
	done, total atomic.Int64
	operations  atomic.Pointer[operation.Group] // nil group if there are none
	quit        chan struct{}
	ended       chan struct{}
	newest      *T // the state after the last write
}

// progress is the content of a write.
type progress struct {
	done, total int64
	operations  operation.Counts
}

// Set sets the number of completed items and the total. It is safe for concurrent use and never blocks.
func (p *Progress[T]) Set(done, total int) {
	p.done.Store(int64(done))
	p.total.Store(int64(total))
}

// Operations sets the operations of the run.
func (p *Progress[T]) Operations(group *operation.Group) { p.operations.Store(group) }

func (p *Progress[T]) now() progress {
	return progress{p.done.Load(), p.total.Load(), p.operations.Load().Counts()}
}

// Follow writes the progress of a run to its custom resource until End is called. doneKey is the field with the number
// of completed items. Waits that are recorded in ctx are logged to log, and written too. If the object no longer
// exists, or another process has taken it up, Follow stops and calls end with ErrDeleted or ErrTakenUp.
func Follow[T any, P resource[T]](
	ctx context.Context, c *Cluster, object P, doneKey string, log hclog.Logger, end func(cause error),
) *Progress[T] {
	p := &Progress[T]{quit: make(chan struct{}), ended: make(chan struct{}), newest: object.DeepCopy()}
	obj := P(p.newest) // used by the goroutine only, until it has ended
	list := waits.Of(ctx)
	list.LogTo(log)
	go func() {
		defer close(p.ended)
		ticker := time.NewTicker(progressPeriod)
		defer ticker.Stop()
		var before progress
		var written time.Time
		for {
			select {
			case <-p.quit:
				return
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			now, waiting := p.now(), WaitsText(list)
			same := waiting == obj.GetAnnotations()[velerov1.WaitsAnnotation]
			if now == before && (same || time.Since(written) < WaitsPeriod) {
				continue
			}
			err := writeProgress[T](ctx, c, obj, doneKey, now, waiting)
			switch {
			case err == nil:
				before, written = now, time.Now()
			case errors.Is(err, ErrDeleted), errors.Is(err, ErrTakenUp):
				end(err)
				return
			case ctx.Err() == nil:
				log.Debug("could not write the progress, will try again", "error", err)
			}
		}
	}()
	return p
}

// writeProgress writes the progress and the waits, and updates obj to the new state. If another client has changed the
// object, it updates obj too, and the progress has to be written again. It returns ErrDeleted if the object no longer
// exists and ErrTakenUp if another process has taken it up.
func writeProgress[T any, P resource[T]](
	ctx context.Context, c *Cluster, obj P, doneKey string, now progress, waiting string,
) error {
	after := P(obj.DeepCopy())
	err := c.Patch(ctx, after, progressPatch(obj, doneKey, now, waiting))
	var there error
	// The API server rejects the uid of another object of that name as a forbidden change.
	if apierrors.IsConflict(err) || apierrors.IsInvalid(err) {
		there = c.Live.Get(ctx, client.ObjectKeyFromObject(obj), after)
	}
	switch {
	case apierrors.IsNotFound(err), apierrors.IsNotFound(there), there == nil && after.GetUID() != obj.GetUID():
		return ErrDeleted
	case there != nil:
		return there
	case ClaimOf(after) != ClaimOf(obj):
		return ErrTakenUp
	case err == nil || apierrors.IsConflict(err):
		*obj = *after
	}
	return err
}

// End stops the writes and returns the newest state, so that the next write does not conflict with them.
func (p *Progress[T]) End() *T {
	close(p.quit)
	<-p.ended
	return p.newest
}

// progressPatch returns a merge patch of the progress and the waits. It applies only to this state of the object.
func progressPatch(object client.Object, doneKey string, now progress, waiting string) client.Patch {
	metadata := map[string]any{"uid": object.GetUID(), "resourceVersion": object.GetResourceVersion()}
	if waiting != object.GetAnnotations()[velerov1.WaitsAnnotation] {
		annotation := &waiting
		if waiting == "" {
			annotation = nil
		}
		metadata["annotations"] = map[string]*string{velerov1.WaitsAnnotation: annotation}
	}
	patch := map[string]any{"metadata": metadata}
	if now != (progress{}) {
		operations := "backupItemOperations"
		if _, restore := object.(*velerov1.Restore); restore {
			operations = "restoreItemOperations"
		}
		patch["status"] = map[string]any{
			"progress":               map[string]any{"totalItems": now.total, doneKey: now.done},
			operations + "Attempted": now.operations.Attempted,
			operations + "Completed": now.operations.Completed,
			operations + "Failed":    now.operations.Failed,
		}
	}
	data, err := json.Marshal(patch)
	if err != nil { // strings and numbers can always be encoded
		panic(err)
	}
	return client.RawPatch(types.MergePatchType, data)
}
