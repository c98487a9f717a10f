package run

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// progressPeriod is the shortest time between two writes of status.progress.
const progressPeriod = time.Second

// Progress writes the progress of a run to status.progress of its custom resource.
type Progress[T any] struct {
	done, total atomic.Int64
	quit        chan struct{}
	ended       chan struct{}
	newest      *T // the state after the last write
}

// Set sets the number of items that are done and that there are. It is safe for concurrent use and never blocks.
func (p *Progress[T]) Set(done, total int) {
	p.done.Store(int64(done))
	p.total.Store(int64(total))
}

// Follow writes the progress of a run to its custom resource until End is called. doneKey is the field of the number of
// items that are done. Follow calls deleted if the object does not exist any more.
func Follow[T any, P resource[T]](ctx context.Context, c *Cluster, object P, doneKey string, log hclog.Logger, deleted func()) *Progress[T] {
	p := &Progress[T]{quit: make(chan struct{}), ended: make(chan struct{}), newest: object.DeepCopy()}
	obj := P(p.newest) // used by the goroutine only, until it has ended
	go func() {
		defer close(p.ended)
		ticker := time.NewTicker(progressPeriod)
		defer ticker.Stop()
		var written [2]int64
		for {
			select {
			case <-p.quit:
				return
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			now := [2]int64{p.done.Load(), p.total.Load()}
			if now == written {
				continue
			}
			err := c.Patch(ctx, obj, progressPatch(obj.GetUID(), doneKey, now[0], now[1]))
			switch {
			case err == nil:
				written = now
			case isDeleted(ctx, c, obj, err):
				deleted()
				return
			case ctx.Err() == nil:
				log.Debug("could not write the progress, will try again", "error", err)
			}
		}
	}()
	return p
}

// isDeleted reports whether a write failed with err because obj was deleted, or replaced by another object of the same
// name. In that case the API server rejects the uid in the write as a forbidden change.
func isDeleted(ctx context.Context, c *Cluster, obj client.Object, err error) bool {
	if apierrors.IsInvalid(err) || apierrors.IsConflict(err) {
		other, ok := obj.DeepCopyObject().(client.Object)
		if !ok {
			return false
		}
		err = c.Live.Get(ctx, client.ObjectKeyFromObject(obj), other)
		if err == nil {
			return other.GetUID() != obj.GetUID()
		}
	}
	return apierrors.IsNotFound(err)
}

// End stops the writes and returns the newest state, so that the next write is not in conflict with them.
func (p *Progress[T]) End() *T {
	close(p.quit)
	<-p.ended
	return p.newest
}

// progressPatch returns a merge patch of the progress that applies only to the object with the uid.
func progressPatch(uid types.UID, doneKey string, done, total int64) client.Patch {
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": uid},
		"status":   map[string]any{"progress": map[string]any{"totalItems": total, doneKey: done}},
	})
	if err != nil { // strings and numbers always encode
		panic(err)
	}
	return client.RawPatch(types.MergePatchType, data)
}
