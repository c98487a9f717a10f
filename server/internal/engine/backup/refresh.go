package backup

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/engine/itemaction"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
)

// Refreshed holds the objects of a backup that were read again after its operations had ended.
type Refreshed struct {
	// Result is the outcome: Items counts the objects that were read again.
	Result *Result
	// Added are the objects that are new in the archive, in the form of the resource list; there are none before Rewrite.
	Added   map[string][]string
	engine  *engine
	changes *changes
}

// Refresh reads the post-operation items of the operations of a backup again, and calls the actions for them and for
// the additional items that these name, as Velero does: the filters of the backup do not apply, and an action that
// starts an operation is an error of the item. Actions whose calls have a key are called only for items for which they
// have started an operation. They return this operation again. An item that cannot be read again stays in the backup
// unchanged.
//
// req.Backup is the backup in its present phase. Its progress and item block actions are not used. Objects are kept in
// a file in dir, "" for the system's directory of temporary files, until Close, which the caller must call. The errors
// are those of Run.
func Refresh(
	ctx context.Context, deps Deps, req Request, operations []operation.Operation, dir string,
) (*Refreshed, error) {
	req.BlockActions, req.Progress = nil, nil
	e := newEngine(deps, req)
	e.refreshing = true
	e.operations.EndedWith(operations)
	spool, err := archive.NewChanges(dir)
	if err != nil {
		return nil, err
	}
	r := &Refreshed{engine: e, changes: &changes{Changes: spool, kinds: map[framework.ResourceIdentifier]string{}}}
	e.archive = r.changes
	if err := e.refresh(ctx, operations); err != nil {
		_ = r.Close() // the file has nothing of use
		return nil, err
	}
	r.Result = e.result()
	r.Added = map[string][]string{}
	return r, nil
}

// Changed reports whether there is an object to replace or to add.
func (r *Refreshed) Changed() bool { return r.changes.Len() > 0 }

// Rewrite copies the archive of the backup from one stream to another, with the objects that were read again. It may
// be repeated, also on its own result.
func (r *Refreshed) Rewrite(ctx context.Context, from io.Reader, to io.Writer) error {
	added, err := archive.Rewrite(ctx, from, to, r.changes.Changes, r.engine.now())
	if err != nil {
		return err
	}
	for _, entry := range added {
		id := framework.ResourceIdentifier{
			Group: entry.GroupResource.Group, Resource: entry.GroupResource.Resource, Namespace: entry.Namespace,
			Name: entry.Name,
		}
		kind, name := r.changes.kinds[id], listName(entry.Namespace, entry.Name)
		if !slices.Contains(r.Added[kind], name) {
			r.Added[kind] = append(r.Added[kind], name)
		}
	}
	for _, names := range r.Added {
		slices.Sort(names)
	}
	return nil
}

// Close removes the file with the objects.
func (r *Refreshed) Close() error { return r.changes.Close() }

// changes are the objects that were read again, with their kinds.
type changes struct {
	*archive.Changes
	mu    sync.Mutex
	kinds map[framework.ResourceIdentifier]string // "apiVersion/Kind"
}

// Item implements itemWriter.
func (c *changes) Item(
	gr schema.GroupResource, version string, preferred bool, namespace, name string, raw []byte,
) error {
	meta, err := item.ParseMeta(raw)
	if err != nil {
		return err
	}
	if preferred {
		c.mu.Lock()
		c.kinds[framework.ResourceIdentifier{Group: gr.Group, Resource: gr.Resource, Namespace: namespace,
			Name: name}] = meta.APIVersion + "/" + meta.Kind
		c.mu.Unlock()
	}
	return c.Changes.Item(gr, version, preferred, namespace, name, raw)
}

// refresh reads the post-operation items and calls the actions for them.
func (e *engine) refresh(ctx context.Context, operations []operation.Operation) (err error) {
	snapshot, err := e.connect(ctx)
	if err != nil {
		return err
	}
	e.sel = &selection{snapshot: snapshot}
	if err := e.prepareActions(ctx, snapshot); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lanes := e.newLanes(func(b *block) {
		for _, o := range b.objects {
			if err := e.readAgain(ctx, o); err != nil {
				cancel(err)
			}
		}
	})
	for _, op := range operations {
		for _, id := range op.PostOperationItems {
			if ctx.Err() != nil {
				break
			}
			resource, id, err := e.wanted(id)
			if err != nil {
				text := fmt.Sprintf("post-operation item of operation %s of %s cannot be backed up again", op.ID, op.Action)
				e.record.failed(schema.GroupResource{Group: id.Group, Resource: id.Resource}, id.Namespace, id.Name, text, err)
				e.log.Error(text, "item", id, "error", err)
				continue
			}
			for _, version := range e.versionsOf(resource) {
				o := object{resource: version, must: true, namespace: id.Namespace, name: id.Name,
					key: e.seen.keyOf(version, id.Namespace, id.Name)}
				if e.seen.assign(o.key) {
					lanes.add(&block{objects: []object{o}})
				}
			}
		}
	}
	lanes.wait()
	return context.Cause(ctx)
}

// readAgain reads one object and calls the actions for it. Failures are recorded; an error ends the whole refresh.
func (e *engine) readAgain(ctx context.Context, o object) (err error) {
	if ctx.Err() != nil || e.seen.has(o.key) {
		return ctx.Err()
	}
	gr := o.resource.GroupResource()
	o.raw, err = e.get(ctx, o.resource, o.namespace, o.name)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case apierrors.IsNotFound(err):
		const text = "post-operation item does not exist any more, the backup keeps it as it was, if at all"
		e.record.warned(gr, o.namespace, o.name, text, nil)
		e.log.Warn(text, "resource", gr, "namespace", o.namespace, "name", o.name)
		return nil
	case err != nil:
		const text = "post-operation item cannot be read, the backup keeps it as it was, if at all"
		e.record.failed(gr, o.namespace, o.name, text, err)
		e.log.Error(text, "resource", gr, "namespace", o.namespace, "name", o.name, "error", err)
		return nil
	}
	_, err = e.object(ctx, o)
	return err
}

// mayCall reports whether an action that applies to an item is called for it.
func (e *engine) mayCall(a itemaction.Starter, id framework.ResourceIdentifier) bool {
	if e.refreshing {
		return e.operations.Expects(a, id)
	}
	return e.req.DryRun.MayCall(a)
}
