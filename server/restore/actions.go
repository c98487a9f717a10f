package restore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/discovery"
	"github.com/cleat-dev/cleat/server/filter"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

// csiPrefix starts the names of actions that are used with the feature EnableCSI only.
const csiPrefix = "velero.io/csi-"

// action is one restore item action with the items that it wants.
type action struct {
	restoreitemaction.Action
	selector framework.ResourceSelector
	wants    filter.Action
}

// Operation is something that an action started and that goes on after the restore of its item.
type Operation struct {
	Action string                       // name of the plugin
	Item   framework.ResourceIdentifier // with the namespace that it was restored into
	ID     string
}

// askActions asks all actions what they apply to. That one cannot say fails the restore: its items would
// be restored without it.
func askActions(ctx context.Context, hubs []restoreitemaction.Action, csi bool) ([]*action, error) {
	var actions []*action
	for _, hub := range hubs {
		if strings.Contains(hub.Name(), csiPrefix) && !csi {
			continue
		}
		selector, err := hub.AppliesTo(ctx)
		if err != nil {
			return nil, fmt.Errorf("ask what the action applies to: %w", err)
		}
		actions = append(actions, &action{Action: hub, selector: selector})
	}
	return actions, nil
}

// resolveActions compiles what actions apply to for what a cluster serves.
func resolveActions(actions []*action, snapshot *discovery.Snapshot) error {
	for _, a := range actions {
		var err error
		if a.wants, err = filter.Resolve(a.selector, snapshot); err != nil {
			return fmt.Errorf("what %s applies to: %w", a.Name(), err)
		}
	}
	return nil
}

// runActions lets the actions that want the item change it, one after the other. skip says that one of
// them does not want it restored. An error is fatal; what goes wrong with the item is recorded, and stop
// says that it cannot be restored.
func (r *itemRun) runActions(ctx context.Context) (skip, stop bool, err error) {
	for _, a := range r.engine.actions {
		// The namespace is the one that is restored into, the labels are those that actions made of them.
		if !a.wants.Matches(r.entry.GroupResource, r.namespace, r.obj.Labels) {
			continue
		}
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
			r.engine.addOperation(Operation{Action: a.Name(), ID: result.OperationID, Item: framework.ResourceIdentifier{
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
func (r *itemRun) restoreAdditional(ctx context.Context, a *action, result *restoreitemaction.Result) error {
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
func (r *itemRun) waitForAdditional(ctx context.Context, a *action, items []framework.ResourceIdentifier, timeout time.Duration) error {
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
