package backup

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/cleat-dev/cleat/server/internal/engine/backup/pages"
	"github.com/cleat-dev/cleat/server/internal/kube/panics"
)

// fatal is an error that ends the whole backup, as opposed to an error of one object.
type fatal struct{ error }

func (f fatal) Unwrap() error { return f.error }

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

// object backs up one object and the additional items that its actions return. It reports whether the object is in the
// backup, from this call or an earlier one. Failures of the object are recorded; an error ends the whole backup.
func (e *engine) object(ctx context.Context, o object) (bool, error) {
	r := itemRun{engine: e, object: o}
	err := panics.Catch(e.log, func() error { return r.run(ctx) })
	end, isFatal := errors.AsType[fatal](err)
	gr := o.resource.GroupResource()
	switch {
	case isFatal:
		return false, end
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err == nil:
		return r.written || r.known, nil
	case r.found.Name == "": // it was not read
		e.record.failed(gr, r.found.Namespace, "", "object cannot be read", err)
		e.log.Error("object cannot be read", "resource", gr, "error", err)
	default:
		e.record.failed(gr, r.found.Namespace, r.found.Name, "error backing up item", err)
		e.log.Error("error backing up item", "resource", gr, "namespace", r.found.Namespace, "name", r.found.Name,
			"error", err)
	}
	return false, nil
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
