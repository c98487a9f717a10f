package pluginreport

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
	"github.com/cleat-dev/cleat/versioning/kinds"
)

// ask asks an action which items it applies to.
type ask func(ctx context.Context) (framework.ResourceSelector, error)

// actions returns the functions that ask plugins which items they apply to, by their index. Actions have one that the
// server calls or would call.
func actions(session *pluginhost.Session, plugins []serverreport.Plugin) map[int]ask {
	found := map[int]ask{}
	stages := serverreport.Stages()
	match(found, plugins, stages[0].Kinds, pluginhost.All(session, kinds.ItemBlockAction()))
	match(found, plugins, stages[1].Kinds, pluginhost.All(session, kinds.BackupItemActions()...))
	match(found, plugins, stages[2].Kinds, pluginhost.All(session, kinds.RestoreItemActions()...))
	match(found, plugins, stages[3].Kinds, pluginhost.All(session, kinds.DeleteItemAction()))
	return found
}

// action is the part that the hubs of all actions have.
type action interface {
	Name() string
	AppliesTo(ctx context.Context) (framework.ResourceSelector, error)
}

// match assigns actions to plugins. An action does not report its kind, but actions of the same name come in the order
// of the kinds.
func match[A action](found map[int]ask, plugins []serverreport.Plugin, ofKinds []string, actions []A) {
	taken := map[int]bool{}
	for _, kind := range ofKinds {
		for i, p := range plugins {
			if !p.Callable() || p.Kind != kind {
				continue
			}
			for j, a := range actions {
				if a.Name() == p.Name && !taken[j] {
					taken[j], found[i] = true, a.AppliesTo
					break
				}
			}
		}
	}
}
