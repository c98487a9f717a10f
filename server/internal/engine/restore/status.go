package restore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/engine/restore/object"
)

// restoresStatus reports whether the object has a status in the backup that is to be restored. In an enclosure, that of
// a pod or service could name addresses outside.
func (r *itemRun) restoresStatus() bool {
	return r.engine.enclose == nil && len(r.status) > 0 && string(r.status) != "null" &&
		r.engine.selection.RestoresStatus(r.entry.GroupResource, r.obj.Annotations)
}

// createIn creates the object in a namespace. Its status is written afterwards, by complete, unless the definition has
// no status subresource and requires one: then the object has it from the start. In a dry run, createIn returns
// errUnchecked if the API server cannot check the creation.
func (r *itemRun) createIn(
	ctx context.Context, to target, home *namespaceState, own object.Ownership,
) (written, error) {
	if err := r.unchecked(to, home); err != nil {
		return written{}, err
	}
	gr := to.gvr.GroupResource()
	restores := r.restoresStatus()
	with := restores && r.engine.requiresStatus(gr)
	if with {
		r.obj.Top.Set("status", r.status)
		defer r.obj.Top.Remove("status")
	}
	made, err := r.engine.create(ctx, to, r.obj, own)
	switch {
	case !lacksStatus(err):
	case !restores && len(r.status) > 0:
		err = fmt.Errorf("%w; its definition requires a status, which is restored only on request: add %s to "+
			"spec.restoreStatus.includedResources (--status-include-resources)", err, gr)
	case restores && !with:
		r.engine.addRequiresStatus(gr)
		return r.createIn(ctx, to, home, own)
	}
	return made, err
}

// lacksStatus reports whether the API server refuses an object because it has no status.
func lacksStatus(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Field == "status" || strings.HasPrefix(cause.Field, "status.") {
			return true
		}
	}
	return false
}

// requiresStatus reports whether objects of a resource are created with their status.
func (e *engine) requiresStatus(gr schema.GroupResource) bool {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	return e.state.requireStatus[gr]
}

// addRequiresStatus records a resource whose objects are created with their status.
func (e *engine) addRequiresStatus(gr schema.GroupResource) {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	e.state.requireStatus[gr] = true
}
