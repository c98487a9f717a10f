package restore

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/itemaction"
	"github.com/cleat-dev/cleat/server/restore/object"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

// runActions calls the actions that apply to the item, one after the other. skip means that one of them does not
// want the item restored; stop means that it cannot be restored, which has been recorded. An error ends the whole
// restore.
func (r *itemRun) runActions(ctx context.Context) (skip, stop bool, err error) {
	// Actions are selected by the namespace that is restored into.
	for a := range r.engine.actions.For(r.entry.GroupResource, r.namespace, func() map[string]string { return r.obj.Labels }) {
		r.log.Debug("running a restore item action", "plugin", a.Name())
		result, err := a.Execute(ctx, restoreitemaction.Input{Item: r.obj.Encode(), ItemFromBackup: r.raw, Restore: r.engine.restoreJSON})
		if ctx.Err() != nil {
			return false, true, context.Cause(ctx)
		}
		if err == nil && result == nil {
			err = fmt.Errorf("%s returned nothing", a.Name())
		}
		if err != nil {
			return false, true, r.fail(fmt.Errorf("error preparing %s: %w", r.id, err))
		}
		if result.OperationID != "" {
			r.engine.addOperation(itemaction.Operation{Action: a.Name(), ID: result.OperationID, Created: time.Now(), Item: framework.ResourceIdentifier{
				Group: r.entry.GroupResource.Group, Resource: r.entry.GroupResource.Resource, Namespace: r.namespace, Name: r.entry.Name,
			}})
		}
		if result.SkipRestore {
			r.log.Info("not restored: an action skipped it", "plugin", a.Name())
			return true, true, nil
		}
		changed, err := object.Decode(result.Item)
		if err != nil {
			return false, true, r.fail(fmt.Errorf("error preparing %s: item returned by %s: %w", r.id, a.Name(), err))
		}
		r.obj = changed
		if err := r.restoreAdditional(ctx, a, result); err != nil {
			return false, true, err
		}
	}
	return false, false, nil
}

// restoreAdditional restores the items that an action needs to exist before its item, and waits until the action
// reports them ready. The item itself is restored whatever happens to them.
func (r *itemRun) restoreAdditional(ctx context.Context, a restoreitemaction.Action, result *restoreitemaction.Result) error {
	var existing []framework.ResourceIdentifier
	for _, wanted := range result.AdditionalItems {
		gr := schema.GroupResource{Group: wanted.Group, Resource: wanted.Resource}
		entry, ok := r.engine.archive.Find(gr, wanted.Namespace, wanted.Name)
		if !ok {
			r.warnIn(wanted.Namespace, fmt.Errorf("additional item %s, which %s requested before %s, is not in the backup", wanted, a.Name(), r.id))
			continue
		}
		exists, err := r.engine.restoreEntry(ctx, r.worker, entry, true)
		if err != nil {
			return err
		}
		if exists {
			existing = append(existing, wanted)
		}
	}
	if !result.WaitForAdditionalItems {
		return nil
	}
	return r.waitForAdditional(ctx, a, existing, result.AdditionalItemsReadyTimeout)
}

// waitForAdditional polls the action until the additional items are ready. An error of the action is an error of the
// item, a timeout is a warning.
func (r *itemRun) waitForAdditional(ctx context.Context, a restoreitemaction.Action, items []framework.ResourceIdentifier, timeout time.Duration) error {
	if timeout <= 0 {
		timeout = r.engine.options.ResourceTimeout
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		ready, err := a.AreAdditionalItemsReady(waiting, items, r.engine.restoreJSON)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil && ready:
			return nil
		case waiting.Err() == nil && err != nil:
			return r.fail(fmt.Errorf("error checking whether the additional items of %s are ready: %w", r.id, err))
		case waiting.Err() == nil:
			r.log.Debug("additional items are not ready yet", "plugin", a.Name())
			_ = sleep(waiting, r.engine.options.PollInterval)
		}
		if waiting.Err() != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			r.warn(fmt.Errorf("the additional items of %s, which %s waits for, were not ready after %s; it is restored nevertheless", r.id, a.Name(), timeout))
			return nil
		}
	}
}
