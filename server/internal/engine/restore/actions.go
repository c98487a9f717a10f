package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/object"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/ready"
	"github.com/cleat-dev/cleat/server/internal/kube/waits"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

// runActions calls the actions that apply to the item, one after the other. skip is set if an action excludes the
// item. stop is set if the item cannot be restored; the problem was recorded. An error ends the whole restore.
func (r *itemRun) runActions(ctx context.Context) (skip, stop bool, err error) {
	// Actions are selected by the target namespace.
	for a := range r.engine.actions.For(r.entry.GroupResource, r.namespace,
		func() map[string]string { return r.obj.Labels }) {
		if !r.concerns(a.Name()) || !r.engine.mayCall(a) || r.isOfFailed(a.Name()) {
			continue
		}
		restore, err := r.restoreFor(a.Name())
		if err != nil {
			return false, true, err
		}
		r.log.Debug("running a restore item action", "plugin", a.Name())
		var result *restoreitemaction.Result
		// The key of an operation is the key of the item in the backup.
		err = r.engine.operations.Call(ctx, a, r.identity(), r.raw, func() (string, []framework.ResourceIdentifier, error) {
			var err error
			result, err = a.Execute(ctx, restoreitemaction.Input{Item: r.obj.Encode(), ItemFromBackup: r.raw, Restore: restore})
			if err == nil && result == nil {
				err = fmt.Errorf("%s returned nothing", a.Name())
			}
			if err != nil {
				return "", nil, err
			}
			return result.OperationID, nil, nil
		})
		if ctx.Err() != nil {
			return false, true, context.Cause(ctx)
		}
		if err != nil {
			return false, true, r.fail(fmt.Errorf("error preparing %s: %w", r.id, err))
		}
		r.operates = r.operates || result.OperationID != ""
		if result.OperationID != "" && r.engine.roles.Has(a.Name(), framework.RolePodVolumeRestores) {
			r.moving = a.Name()
		}
		if result.SkipRestore {
			r.leave("action "+a.Name()+" skips it", "plugin", a.Name())
			return true, true, nil
		}
		if r.engine.dry != nil && result.OperationID != "" {
			return false, true, r.fail(fmt.Errorf("error preparing %s: %s has started operation %s in a dry run; take it out "+
				"of plugins.dryRun", r.id, a.Name(), result.OperationID))
		}
		changed, err := object.Decode(result.Item)
		if err != nil {
			return false, true, r.fail(fmt.Errorf("error preparing %s: item returned by %s: %w", r.id, a.Name(), err))
		}
		why := requested
		if changed.Annotations[velerov1.MustIncludeAdditionalItemsRestoreAnnotation] == "true" {
			why = required
		}
		changed.RemoveAnnotations(velerov1.MustIncludeAdditionalItemsRestoreAnnotation)
		r.obj = changed
		if err := r.restoreAdditional(ctx, a, result, why); err != nil {
			return false, true, err
		}
	}
	return false, false, nil
}

// identity returns the identity of the item in its restored form.
func (r *itemRun) identity() framework.ResourceIdentifier {
	return framework.ResourceIdentifier{
		Group: r.entry.GroupResource.Group, Resource: r.entry.GroupResource.Resource, Namespace: r.namespace,
		Name: r.entry.Name,
	}
}

// restoreAdditional restores the items that must exist before the item of an action, and waits until the action
// reports them ready. The item itself is restored even if that fails.
func (r *itemRun) restoreAdditional(
	ctx context.Context, a restoreitemaction.Action, result *restoreitemaction.Result, why reason,
) error {
	var existing []framework.ResourceIdentifier
	for _, wanted := range result.AdditionalItems {
		gr := schema.GroupResource{Group: wanted.Group, Resource: wanted.Resource}
		entry, ok := r.engine.archive.Find(gr, wanted.Namespace, wanted.Name)
		if !ok {
			r.warnIn(wanted.Namespace, fmt.Errorf("additional item %s, which %s requested before %s, is not in the backup",
				wanted, a.Name(), r.id))
			continue
		}
		exists, err := r.engine.restoreEntry(ctx, r.worker, entry, why)
		if err != nil {
			return err
		}
		if exists {
			existing = append(existing, wanted)
		}
	}
	if !result.WaitForAdditionalItems || r.engine.dry != nil {
		return nil
	}
	return r.waitForAdditional(ctx, a, existing, result.AdditionalItemsReadyTimeout)
}

// someOf holds some items, of which messages name the first few.
type someOf []framework.ResourceIdentifier

// String names the items.
func (items someOf) String() string {
	const few = 3
	var names []string
	for i := range items[:min(few, len(items))] {
		names = append(names, items[i].String())
	}
	if more := len(items) - few; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return cmp.Or(strings.Join(names, ", "), "additional items")
}

// waitForAdditional waits until the action reports the additional items as ready. If the action returns an error, or
// they are not ready in time, it records an error of the item, which is restored nevertheless. The time is that of the
// action, or what the waits of the restore that were in vain have left.
func (r *itemRun) waitForAdditional(
	ctx context.Context, a restoreitemaction.Action, items []framework.ResourceIdentifier, limit time.Duration,
) error {
	own := limit > 0
	if !own {
		limit = r.engine.gates.left()
	}
	r.log.Debug("waits for its additional items", "plugin", a.Name(), "limit", limit)
	defer waits.Begin(ctx, "%s to be ready before %s, for up to %s: action %s reports when", someOf(items), r.id, limit,
		a.Name()).End()
	err := r.engine.pool.park(ctx, func() error {
		return r.engine.waiter.Wait(ctx, a.Name(), limit, func(ctx context.Context) (bool, error) {
			return a.AreAdditionalItemsReady(ctx, items, r.engine.restoreJSON)
		})
	})
	switch {
	case err == nil || ctx.Err() != nil:
		return causeOf(ctx)
	case errors.Is(err, ready.ErrTimeout):
		if !own {
			r.engine.gates.useUp()
			limit = r.engine.options.ResourceTimeout // of which others have taken the rest
		}
		return r.fail(fmt.Errorf("the additional items of %s, which %s waits for, were not ready after %s; it is restored "+
			"nevertheless", r.id, a.Name(), limit))
	}
	return r.fail(fmt.Errorf("error checking whether the additional items of %s are ready: %w; it is restored "+
		"nevertheless", r.id, err))
}
