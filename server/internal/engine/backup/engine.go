package backup

import (
	"cmp"
	"context"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/engine/backup/pages"
	"github.com/cleat-dev/cleat/server/internal/engine/itemaction"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
)

// Run takes a backup and streams its archive to w. It returns an error if the archive as a whole is unusable: the sink
// fails, the spec is invalid, an action does not return its selector, the API server does not list its namespaces, or
// ctx ends. Problems with single objects or lists are in the result and do not stop the backup. The result is never
// nil.
func Run(ctx context.Context, deps Deps, req Request, w io.Writer) (*Result, error) {
	e := newEngine(deps, req)
	err := e.run(ctx, w)
	return e.result(), err
}

func newEngine(deps Deps, req Request) *engine {
	e := &engine{
		deps: deps, req: req, log: req.Log, now: deps.Now, record: newRecord(req.Progress),
		volumes:  newVolumeState(req, deps),
		parallel: map[schema.GroupResource]bool{}, orderedTurns: make(chan struct{}, max(1, deps.Workers)),
	}
	if e.now == nil {
		e.now = time.Now
	}
	if req.DryRun != nil {
		e.dry = newDryRun()
	}
	e.turns = e.newTurns()
	e.operations = itemaction.NewOperations(req.Journal, req.Followed, e.now)
	return e
}

func (e *engine) result() *Result {
	result := e.record.result()
	result.Operations = e.operations.Complete()
	result.Collection = e.collection()
	if e.hooks != nil {
		result.Hooks = e.hooks.Status()
	}
	result.Snapshots, result.Volumes = e.volumes.infos.Files(result.Operations, e.deps.Roles)
	result.CSI = e.volumes.infos.CSI()
	return result
}

func (e *engine) run(ctx context.Context, w io.Writer) (err error) {
	if err := e.prepare(ctx); err != nil {
		return err
	}
	e.preflight()

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var out *archive.Writer
	if e.dry == nil {
		if out, err = archive.NewWriter(w, e.now()); err != nil {
			return err
		}
		out.SumInto(e.req.Sums)
		e.archive = out
	} else {
		e.archive = nowhere{}
		e.countUnlisted(ctx)
	}
	err = e.collect(ctx, cancel)
	if err == nil {
		err = e.close(ctx)
	}
	if err == nil {
		err = e.takeRest(ctx)
	}
	if err == nil {
		e.warnOfIdle()
	}
	if err != nil {
		cancel(err)
	}
	e.later.Wait()
	// A failing sink ends the reading through ctx. Its error is then reported.
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	switch {
	case e.dry != nil:
		if err != nil {
			cancel(err)
		}
		e.dry.counted.Wait()
		return err
	case err != nil:
		out.Abort()
		return err
	}
	return out.Close()
}

// collect backs up the objects of all lists except the namespaces.
func (e *engine) collect(ctx context.Context, cancel context.CancelCauseFunc) error {
	lists := plan(e.sel, e.deps.AllVersions)
	e.log.Info("collecting objects", "lists", len(lists))
	reader := pages.NewReader(e.client, pageSize(e.deps), lists, e.record.expect)
	lanes := e.newLanes(func(b *block) {
		defer b.done()
		if err := e.block(ctx, b); err != nil {
			cancel(err)
		}
	})
	begun := func(l *pages.List) error {
		if l.First {
			return e.ordered(ctx, l.Resource, lanes)
		}
		return nil
	}
	consume := func(p *pages.Page) error {
		if len(p.Objects) > 0 {
			e.sel.selectors.Matched(p.List.Selector)
		}
		related := !p.List.Resource.NotPreferred && e.blockActions.Concerns(p.List.Resource.GroupResource())
		for _, raw := range p.Objects {
			b := &block{objects: []object{{resource: p.List.Resource, raw: raw, listed: true,
				included: manifest.Inclusion{By: manifest.ByFilters}}}, done: p.Release}
			if related {
				if err := e.relate(ctx, b); err != nil {
					return err
				}
			} else if p.List.Resource.GroupResource() == podsResource {
				meta, err := item.ParseMeta(raw)
				b.hooked = err == nil && e.hooked(b.objects[0], meta)
			}
			p.Hold()
			lanes.add(b)
		}
		return context.Cause(ctx)
	}
	err := reader.Each(ctx, begun, consume, e.listFailed)
	lanes.wait()
	return cmp.Or(context.Cause(ctx), err)
}
