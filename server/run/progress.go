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

// progressPeriod is how often status.progress is written at most.
const progressPeriod = time.Second

// progress shows how far an operation is in status.progress of its custom resource.
type Progress[T any] struct {
	done, total atomic.Int64
	quit        chan struct{}
	ended       chan struct{}
	newest      *T // as the last write left it
}

// set says how far the operation is. It is safe for concurrent use and never waits.
func (p *Progress[T]) Set(done, total int) {
	p.done.Store(int64(done))
	p.total.Store(int64(total))
}

// follow writes the progress into the custom resource that object is a state of, until end. When
// it is gone, follow calls gone.
func Follow[T any, P resource[T]](ctx context.Context, c *Cluster, object P, doneKey string, log hclog.Logger, gone func()) *Progress[T] {
	p := &Progress[T]{quit: make(chan struct{}), ended: make(chan struct{}), newest: object.DeepCopy()}
	obj := P(p.newest) // the goroutine's until it has ended
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
			case isGone(ctx, c, obj, err):
				gone()
				return
			case ctx.Err() == nil:
				log.Debug("the progress could not be written; it is tried again", "error", err)
			}
		}
	}()
	return p
}

// isGone reports whether a write failed with err because obj was deleted, or replaced by another
// object of its name: then the API server takes the uid in the write for a forbidden change.
func isGone(ctx context.Context, c *Cluster, obj client.Object, err error) bool {
	if apierrors.IsInvalid(err) || apierrors.IsConflict(err) {
		there := obj.DeepCopyObject()
		other, ok := there.(client.Object)
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

// end stops the writes and returns the newest state, so that the next write meets no conflict.
func (p *Progress[T]) End() *T {
	close(p.quit)
	<-p.ended
	return p.newest
}

// progressPatch is a merge patch that changes nothing but the progress, of that very object.
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
