package restore

import (
	"context"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/archive"
	"github.com/cleat-dev/cleat/server/item"
)

// collect returns the items of a resource that are restored.
func (e *engine) collect(gr schema.GroupResource) ([]archive.Entry, error) {
	if !e.selection.IncludesResource(gr) {
		e.log.Debug("resource is excluded by the filters of the restore", "resource", gr.String())
		return nil, nil
	}
	var entries []archive.Entry
	for entry := range e.archive.Items(gr) {
		if !e.selection.Selects(entry) {
			continue
		}
		if e.selection.SelectsByLabels(gr) {
			raw, err := e.archive.Read(entry)
			if err != nil {
				return nil, err
			}
			// An invalid item is kept, so that its restore reports the error.
			if meta, err := item.ParseMeta(raw); err == nil && !e.selection.MatchesLabels(meta.Labels) {
				continue
			}
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// worker is one goroutine of the pool. It restores additional items itself when they are needed, so that it may
// hold several claims at the same time.
type worker struct {
	waitsFor *claim
}

// restoreAll restores items with a pool of workers and returns when all are done.
func (e *engine) restoreAll(ctx context.Context, entries []archive.Entry) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(e.options.Workers, len(entries)) {
		group.Go(func() {
			w := &worker{}
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(entries) {
					return
				}
				if _, err := e.restoreEntry(ctx, w, entries[i], false); err != nil {
					cancel(err)
				}
			}
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
