package operations

import (
	"context"

	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/host/pluginhost"
	"github.com/cleat-dev/cleat/server/internal/kube/loadkey"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
	"github.com/cleat-dev/cleat/versioning/kinds"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
)

// NewStarter returns the actions of a host whose starts have keys.
func NewStarter(host *pluginhost.Host, keys *loadkey.Keys) Starter {
	return starter{
		keys:    keys,
		backup:  pluginhost.NewIndex(host, kinds.AsyncBackupItemAction()),
		restore: pluginhost.NewIndex(host, kinds.AsyncRestoreItemAction()),
	}
}

type starter struct {
	keys    *loadkey.Keys
	backup  *pluginhost.Index[backupitemaction.Action]
	restore *pluginhost.Index[restoreitemaction.Action]
}

// Start implements Starter. Only the key counts, so the action gets an item that has only its identity.
func (s starter) Start(ctx context.Context, owner *operation.Owner, start operation.Start) (string, error) {
	ctx = pluginhost.ForRun(ctx, string(owner.UID))
	object, err := owner.ForPlugins(ctx, s.keys)
	if err != nil {
		return "", err
	}
	if owner.Kind == operation.OfRestore {
		action, err := s.restore.Named(start.Action)
		if err != nil {
			return "", err
		}
		result, err := action.Execute(ctx, restoreitemaction.Input{Item: start.Sent, ItemFromBackup: start.Sent,
			Restore: object})
		if err != nil || result == nil {
			return "", err
		}
		return result.OperationID, nil
	}
	action, err := s.backup.Named(start.Action)
	if err != nil {
		return "", err
	}
	result, err := action.Execute(ctx, start.Sent, object)
	if err != nil || result == nil {
		return "", err
	}
	return result.OperationID, nil
}
