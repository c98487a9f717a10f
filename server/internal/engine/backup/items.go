package backup

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/cleat-dev/cleat/server/internal/engine/backup/pages"
	"github.com/cleat-dev/cleat/server/internal/kube/item"
	"github.com/cleat-dev/cleat/server/internal/kube/panics"
	"github.com/cleat-dev/cleat/server/internal/kube/runlog"
)

// fatal is an error that ends the whole backup, as opposed to one of an object.
type fatal struct{ error }

func (f fatal) Unwrap() error { return f.error }

// object backs up one object and the additional items that its actions return. Failures of the object are
// recorded; an error ends the whole backup.
func (e *engine) object(ctx context.Context, o object) (bool, error) {
	meta, err := item.ParseMeta(o.raw)
	if err == nil && meta.Name == "" {
		err = errors.New("metadata.name is missing")
	}
	if err != nil {
		e.record.failed(o.resource.GroupResource(), meta.Namespace, meta.Name, "object cannot be read", err)
		e.log.Error("object cannot be read", "resource", o.resource.GroupResource(), "error", err)
		return false, nil
	}
	stored := false
	err = panics.Catch(e.log, func() (err error) {
		stored, err = e.store(ctx, o, meta)
		return err
	})
	var end fatal
	switch {
	case errors.As(err, &end):
		return false, end
	case ctx.Err() != nil:
		return false, ctx.Err()
	}
	if err != nil {
		e.record.failed(o.resource.GroupResource(), meta.Namespace, meta.Name, "error backing up item", err)
		e.log.Error("error backing up item", "resource", o.resource.GroupResource(),
			"namespace", meta.Namespace, "name", meta.Name, "error", err)
	}
	return stored, nil
}

// store calls the actions for an object and writes the object to the archive. It reports whether the object
// is in the backup, now or from before.
func (e *engine) store(ctx context.Context, o object, meta item.Meta) (bool, error) {
	if o.listed && !e.leftOutByRules(o, meta) {
		e.record.collected(meta.Namespace)
	}
	if reason := e.exclusion(o, meta); reason != "" {
		if o.listed {
			e.record.expect(-1)
			e.leaveOut(o.resource.GroupResource(), reason)
		}
		e.log.Debug("object is excluded", "resource", o.resource.GroupResource(),
			"namespace", meta.Namespace, "name", meta.Name, "reason", reason)
		return false, nil
	}
	key := e.seen.keyOf(o.resource, meta.Namespace, meta.Name)
	inOther := o.listed && !o.assigned && e.blockActions.Any() && !e.seen.assign(key)
	if inOther || !e.seen.add(key) {
		if o.listed {
			e.record.expect(-1)
		}
		return true, nil
	}
	if !o.listed {
		e.record.expect(1)
	}

	raw := o.raw
	if meta.Kind == "" && meta.APIVersion == "" {
		meta.APIVersion, meta.Kind = o.resource.GroupVersion.String(), o.resource.Kind
		buf := e.buffers.get()
		defer e.buffers.put(buf)
		*buf = item.WithType((*buf)[:0], o.raw, meta.APIVersion, meta.Kind)
		raw = *buf
	}
	done, err := e.act(ctx, o, meta, raw)
	if err != nil {
		e.record.expect(-1)
		return false, err
	}
	if done.excluded {
		e.seen.remove(key)
		e.record.expect(-1)
		return false, nil
	}
	if o.resource.GroupResource() == volumesResource && !e.refreshing {
		if err := e.backUpVolume(ctx, done.raw); err != nil {
			e.record.expect(-1)
			return false, err
		}
	}
	if err := e.recordSnapshot(o.resource, done.meta, done.raw); err != nil {
		e.record.expect(-1)
		return false, err
	}
	if err := e.write(o, done.meta, done.raw, done.requested); err != nil {
		return false, fatal{err}
	}
	if e.req.Accepted != nil {
		e.req.Accepted.took(o.resource, meta, done.meta)
	}
	count, total := e.record.stored(o.resource.GroupResource(), meta)
	runlog.BackedUp(e.log, runlog.Item{
		Resource: o.resource.GroupResource().String(), Namespace: meta.Namespace, Name: meta.Name, Done: count, Total: total,
	})
	return true, nil
}

// listFailed records that a list could not be read to its end.
func (e *engine) listFailed(l *pages.List, err error) {
	gr := l.Resource.GroupResource()
	if apierrors.IsNotFound(err) {
		const text = "the API server no longer serves the resource, its objects are left out"
		e.record.warned(gr, l.Namespace, "", text, nil)
		e.log.Warn(text, "resource", gr)
		return
	}
	e.record.failed(gr, l.Namespace, "", fmt.Sprintf("cannot %s, the objects that were not read are missing in the backup",
		l), err)
	e.log.Error("cannot "+l.String(), "error", err)
}

// block backs up the objects of a block, between the pre and the post hooks of its pods. An error ends the whole
// backup.
func (e *engine) block(ctx context.Context, b *block) error {
	defer e.relatedBytes.Add(-b.related)
	pods, err := e.preHooks(ctx, b)
	defer e.endHooks(ctx, pods)
	if err != nil {
		return err
	}
	for _, o := range b.objects {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if len(b.objects) > 1 {
			o.block = b
		}
		if err := e.read(ctx, &o); err != nil {
			return err
		}
		if o.missing {
			continue
		}
		if _, err := e.object(ctx, o); err != nil {
			return err
		}
	}
	return nil
}
