package backup

import (
	"cmp"
	"context"
	"io"
	"time"

	"github.com/cleat-dev/cleat/server/archive"
	"github.com/cleat-dev/cleat/server/backup/pages"
)

// Run takes a backup and streams its archive to w. It returns an error for whatever makes the archive as a
// whole unusable: the sink fails, the spec is invalid, an action cannot say what it applies to, the API
// server does not list its namespaces, ctx ends. Problems with single objects or lists are in the result and
// do not stop the backup. The result is never nil.
func Run(ctx context.Context, deps Deps, req Request, w io.Writer) (*Result, error) {
	e := &engine{deps: deps, req: req, log: req.Log, now: deps.Now}
	if e.now == nil {
		e.now = time.Now
	}
	e.record = newRecord(req.Progress)
	err := e.run(ctx, w)
	return e.record.result(), err
}

func (e *engine) run(ctx context.Context, w io.Writer) (err error) {
	if err := e.prepare(ctx); err != nil {
		return err
	}
	e.preflight()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if e.archive, err = archive.NewWriter(w, e.now()); err != nil {
		return err
	}
	err = e.collect(ctx, cancel)
	if err == nil {
		err = e.close(ctx)
	}
	// A failing sink ends the reading through ctx. Its error is then the one to report.
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err != nil {
		e.archive.Abort()
		return err
	}
	return e.archive.Close()
}

// collect backs up the objects of all lists except the namespaces.
func (e *engine) collect(ctx context.Context, cancel context.CancelCauseFunc) error {
	lists := plan(e.sel, e.deps.AllVersions)
	e.log.Info("collecting objects", "lists", len(lists))
	reader := pages.NewReader(e.client, pageSize(e.deps), lists, e.record.expect)
	workers := newWorkers(max(1, e.deps.Workers), func(b block) {
		defer b.done()
		if err := e.block(ctx, b); err != nil {
			cancel(err)
		}
	})
	begun := func(l *pages.List) error {
		if l.First {
			return e.ordered(ctx, l.Resource, workers)
		}
		return nil
	}
	consume := func(p *pages.Page) error {
		for _, raw := range p.Objects {
			p.Hold()
			workers.add(block{objects: []object{{resource: p.List.Resource, raw: raw, listed: true}}, done: p.Release})
		}
		return context.Cause(ctx)
	}
	err := reader.Each(ctx, begun, consume, e.listFailed)
	workers.wait()
	return cmp.Or(context.Cause(ctx), err)
}
