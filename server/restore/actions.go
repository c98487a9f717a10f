package restore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/itemaction"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

// runActions lets the actions that want the item change it, one after the other. skip says that one of
// them does not want it restored. An error is fatal; what goes wrong with the item is recorded, and stop
// says that it cannot be restored.
func (r *itemRun) runActions(ctx context.Context) (skip, stop bool, err error) {
	// Actions are selected by the namespace that is restored into.
	for a := range r.engine.actions.For(r.entry.GroupResource, r.namespace, func() map[string]string { return r.obj.Labels }) {
		r.log.Debug("running a restore item action", "plugin", a.Name())
		result, err := a.Execute(ctx, restoreitemaction.Input{Item: r.obj.encode(), ItemFromBackup: r.raw, Restore: r.engine.restoreJSON})
		if ctx.Err() != nil {
			return false, true, context.Cause(ctx)
		}
		if err == nil && result == nil {
			err = errors.New("the action answered nothing")
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
			r.log.Info("not restored: an action left it out", "plugin", a.Name())
			return true, true, nil
		}
		changed, err := decodeObject(result.Item)
		if err != nil {
			return false, true, r.fail(fmt.Errorf("error preparing %s: answer of %s: %w", r.id, a.Name(), err))
		}
		r.obj = changed
		if err := r.restoreAdditional(ctx, a, result); err != nil {
			return false, true, err
		}
	}
	return false, false, nil
}

// restoreAdditional restores what an action wants to be there before its item, and waits until the action
// says that it is ready. What goes wrong does not keep the item itself from being restored.
func (r *itemRun) restoreAdditional(ctx context.Context, a restoreitemaction.Action, result *restoreitemaction.Result) error {
	var there []framework.ResourceIdentifier
	for _, wanted := range result.AdditionalItems {
		gr := schema.GroupResource{Group: wanted.Group, Resource: wanted.Resource}
		entry, ok := r.engine.archive.Find(gr, wanted.Namespace, wanted.Name)
		if !ok {
			r.warnIn(wanted.Namespace, fmt.Errorf("additional item %s, which %s wants before %s, is not in the backup", wanted, a.Name(), r.id))
			continue
		}
		exists, err := r.engine.restoreEntry(ctx, r.worker, entry, true)
		if err != nil {
			return err
		}
		if exists {
			there = append(there, wanted)
		}
	}
	if !result.WaitForAdditionalItems {
		return nil
	}
	return r.waitForAdditional(ctx, a, there, result.AdditionalItemsReadyTimeout)
}

// waitForAdditional polls the action. An error of it is the item's; a time-out is a warning.
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
			return r.fail(fmt.Errorf("error asking whether the additional items of %s are ready: %w", r.id, err))
		case waiting.Err() == nil:
			r.log.Debug("additional items are not ready yet", "plugin", a.Name())
			_ = sleep(waiting, r.engine.options.PollInterval)
		}
		if waiting.Err() != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			r.warn(fmt.Errorf("the additional items of %s were not ready after %s, which %s waits for; it is restored all the same", r.id, timeout, a.Name()))
			return nil
		}
	}
}
