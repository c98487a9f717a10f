package operation

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/kube/loadkey"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
	"github.com/cleat-dev/cleat/versioning/kinds"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

// NewPlugins returns the actions of a host. Each call goes to the plugin that has the name at that time, so a plugin
// that was replaced or restarted continues the operations of the former one. The calls are attributed to the run of
// the owner. keys complete the JSON of the owner.
func NewPlugins(host *pluginhost.Host, keys *loadkey.Keys) Plugins {
	return plugins{
		keys: keys,
		// If a name is used for both kinds, it means the kind made for operations.
		backup:  pluginhost.NewIndex(host, kinds.AsyncBackupItemAction(), kinds.BackupItemAction()),
		restore: pluginhost.NewIndex(host, kinds.AsyncRestoreItemAction(), kinds.RestoreItemAction()),
	}
}

type plugins struct {
	keys    *loadkey.Keys
	backup  *pluginhost.Index[backupitemaction.Action]
	restore *pluginhost.Index[restoreitemaction.Action]
}

// follower has the methods that the hubs of actions share.
type follower interface {
	Starts() versioning.Starts
	Progress(ctx context.Context, operationID string, owner []byte) (framework.OperationProgress, error)
	AtOnce() int
	ProgressOfMany(ctx context.Context, operationIDs []string, owner []byte) (map[string]framework.OperationProgress,
		error)
	Cancel(ctx context.Context, operationID string, owner []byte) error
}

// Progress implements Plugins.
func (p plugins) Progress(ctx context.Context, owner *Owner, action, id string) (framework.OperationProgress, error) {
	a, err := p.action(owner, action)
	if err != nil {
		return framework.OperationProgress{}, err
	}
	object, err := owner.ForPlugins(ctx, p.keys)
	if err != nil {
		return framework.OperationProgress{}, err
	}
	return a.Progress(owner.calls(ctx), id, object)
}

// AtOnce implements Plugins.
func (p plugins) AtOnce(owner *Owner, action string) int {
	a, err := p.action(owner, action)
	if err != nil {
		return 0
	}
	return a.AtOnce()
}

// ProgressOfMany implements Plugins.
func (p plugins) ProgressOfMany(
	ctx context.Context, owner *Owner, action string, ids []string,
) (map[string]framework.OperationProgress, error) {
	a, err := p.action(owner, action)
	if err != nil {
		return nil, err
	}
	object, err := owner.ForPlugins(ctx, p.keys)
	if err != nil {
		return nil, err
	}
	return a.ProgressOfMany(owner.calls(ctx), ids, object)
}

// Cancel implements Plugins.
func (p plugins) Cancel(ctx context.Context, owner *Owner, action, id string) error {
	a, err := p.action(owner, action)
	if err != nil {
		return err
	}
	if a.Starts() == versioning.NoOperations { // its Cancel does nothing
		return versioning.ErrNoOperations
	}
	object, err := owner.ForPlugins(ctx, p.keys)
	if err != nil {
		return err
	}
	return a.Cancel(owner.calls(ctx), id, object)
}

// Declared implements Plugins.
func (p plugins) Declared(owner *Owner, action string) Limits {
	index := p.backup.Entry
	if owner.Kind == OfRestore {
		index = p.restore.Entry
	}
	entry, err := index(action)
	if err != nil {
		return Limits{}
	}
	return Limits{Timeout: entry.OperationTimeout, Stall: entry.StallTimeout}
}

func (p plugins) action(owner *Owner, name string) (follower, error) {
	if owner.Kind == OfRestore {
		return p.restore.Named(name)
	}
	return p.backup.Named(name)
}

// ForPlugins returns the JSON of the owner with its key, for plugins.
func (o *Owner) ForPlugins(ctx context.Context, keys *loadkey.Keys) ([]byte, error) {
	return keys.ForPlugins(ctx, o.Kind, o.UID, o.JSON)
}

// calls returns the context for calls about the operations of an owner.
func (o *Owner) calls(ctx context.Context) context.Context {
	return pluginhost.ForOperations(ctx, string(o.UID))
}
