package backupitemaction

import (
	"context"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	backupitemactionv2 "github.com/cleat-dev/cleat/proto/velero/backupitemaction/v2"
	"github.com/cleat-dev/cleat/versioning"
)

// NewV2 returns the action listed as name in the plugin that conn reaches, at version 2 of the kind.
func NewV2(conn grpc.ClientConnInterface, name string) Action {
	return v2{
		Plugin: versioning.NewPlugin("BackupItemAction", name),
		client: backupitemactionv2.NewBackupItemActionClient(conn),
	}
}

// CallsV2 declares the methods of the version.
func CallsV2() versioning.Calls {
	return versioning.Calls{
		backupitemactionv2.BackupItemAction_AppliesTo_FullMethodName: {Class: versioning.Query, Repeatable: true,
			Constant: true},
		backupitemactionv2.BackupItemAction_Execute_FullMethodName:  {Class: versioning.Execute},
		backupitemactionv2.BackupItemAction_Progress_FullMethodName: {Class: versioning.Query, Repeatable: true},
		backupitemactionv2.BackupItemAction_Cancel_FullMethodName:   {Class: versioning.Query},
	}
}

type v2 struct {
	versioning.Plugin
	versioning.OneByOne
	client backupitemactionv2.BackupItemActionClient
}

func (a v2) AppliesTo(ctx context.Context) (framework.ResourceSelector, error) {
	return versioning.Ask(ctx, a.Plugin, a.client.AppliesTo,
		&backupitemactionv2.BackupItemActionAppliesToRequest{Plugin: a.Name()}, versioning.Selector)
}

func (v2) Starts() versioning.Starts { return versioning.Unkeyed }

func (a v2) Execute(ctx context.Context, item, backup []byte) (*Result, error) {
	return versioning.Ask(ctx, a.Plugin, a.client.Execute, &backupitemactionv2.ExecuteRequest{
		Plugin: a.Name(), Item: item, Backup: backup,
	}, func(answer *backupitemactionv2.ExecuteResponse) (*Result, error) {
		return checkResult(item, answer.GetItem(), answer.GetAdditionalItems(), answer.GetOperationID(),
			answer.GetPostOperationItems())
	})
}

func (a v2) Progress(ctx context.Context, operationID string, backup []byte) (framework.OperationProgress, error) {
	return versioning.Ask(ctx, a.Plugin, a.client.Progress, &backupitemactionv2.BackupItemActionProgressRequest{
		Plugin: a.Name(), OperationID: operationID, Backup: backup,
	}, versioning.Progress)
}

func (a v2) Cancel(ctx context.Context, operationID string, backup []byte) error {
	_, err := a.client.Cancel(ctx, &backupitemactionv2.BackupItemActionCancelRequest{
		Plugin: a.Name(), OperationID: operationID, Backup: backup,
	})
	return a.Wrap(err)
}
