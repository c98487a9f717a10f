package backup

import (
	"context"
	"errors"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
	"github.com/cleat-dev/cleat/server/internal/kube/runlog"
)

// itemRun is the state of one object in the steps of run.
type itemRun struct {
	engine *engine
	object object
	found  item.Meta // as in the cluster
	key    key

	// The object as changed by the actions, with its type.
	meta      item.Meta
	raw       []byte
	requested []manifest.Edge // the additional items
	buffer    *[]byte         // of the pool, if raw was copied to it

	expected bool // the record counts the object as expected
	known    bool // the object is in the backup already, or in another block
	skipped  bool // an action excludes the object
	written  bool // the object is in the archive
}

// run takes the object through its steps. settle is always the last one, whatever the others return. An error concerns
// the object only, unless it is fatal.
func (r *itemRun) run(ctx context.Context) error {
	r.expected = r.object.listed
	defer r.settle()
	if err := r.read(); err != nil {
		return err
	}
	if !r.isSelected() || !r.claim() {
		return nil
	}
	if err := r.act(ctx); err != nil || r.skipped {
		return err
	}
	if err := r.backUpData(ctx); err != nil {
		return err
	}
	return r.write()
}

// read reads the metadata of the object.
func (r *itemRun) read() (err error) {
	r.found, err = item.ParseMeta(r.object.raw)
	if err == nil && r.found.Name == "" {
		err = errors.New("metadata.name is missing")
	}
	return err
}

// isSelected reports whether the object is part of the backup.
func (r *itemRun) isSelected() bool {
	e, o, gr := r.engine, r.object, r.object.resource.GroupResource()
	if o.listed && !e.leftOutByRules(o, r.found) {
		e.record.collected(r.found.Namespace)
	}
	reason := e.exclusion(o, r.found)
	if reason == "" {
		return true
	}
	if o.listed {
		e.leaveOut(gr, reason)
	}
	e.log.Debug("object is excluded", "resource", gr, "namespace", r.found.Namespace, "name", r.found.Name,
		"reason", reason)
	return false
}

// claim marks the object as taken. It returns false if the backup has already taken it, or if it is in another block.
func (r *itemRun) claim() bool {
	e, o := r.engine, &r.object
	r.key = e.seen.keyOf(o.resource, r.found.Namespace, r.found.Name)
	inOther := o.listed && !o.assigned && e.blockActions.Any() && !e.seen.assign(r.key)
	if inOther || !e.seen.add(r.key) {
		r.known = true
		return false
	}
	if !o.listed {
		e.record.expect(1)
		r.expected = true
	}
	r.addType()
	return true
}

// addType adds the type to the object, which has none if it comes from a list.
func (r *itemRun) addType() {
	r.raw = r.object.raw
	if r.found.Kind == "" && r.found.APIVersion == "" {
		resource := &r.object.resource
		r.found.APIVersion, r.found.Kind = resource.GroupVersion.String(), resource.Kind
		r.buffer = r.engine.buffers.get()
		*r.buffer = item.WithType((*r.buffer)[:0], r.raw, r.found.APIVersion, r.found.Kind)
		r.raw = *r.buffer
	}
	r.meta = r.found
}

// backUpData takes the snapshot of a persistent volume, and records an object that belongs to a CSI snapshot.
func (r *itemRun) backUpData(ctx context.Context) error {
	e := r.engine
	if r.object.resource.GroupResource() == volumesResource && !e.refreshing {
		if err := e.backUpVolume(ctx, r.raw); err != nil {
			return err
		}
	}
	return e.recordSnapshot(r.object.resource, r.meta, r.raw)
}

// settle records whether the object is in the archive. If it is not, the record no longer expects it.
func (r *itemRun) settle() {
	e, resource := r.engine, &r.object.resource
	if r.buffer != nil {
		defer e.buffers.put(r.buffer)
	}
	if r.skipped {
		e.seen.remove(r.key)
	}
	if !r.written {
		if r.expected {
			e.record.expect(-1)
		}
		return
	}
	if e.req.Accepted != nil {
		e.req.Accepted.took(*resource, r.found, r.meta)
	}
	done, total := e.record.stored(resource.GroupResource(), r.found)
	runlog.BackedUp(e.log, runlog.Item{
		Resource:  resource.GroupResource().String(),
		Namespace: r.found.Namespace,
		Name:      r.found.Name,
		Done:      done,
		Total:     total,
	})
}
