package backupitemaction

import (
	"context"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	backupitemactionv2 "github.com/cleat-dev/cleat/proto/velero/backupitemaction/v2"
	"github.com/cleat-dev/cleat/versioning"
)

// V2 describes version 2 of the kind.
func V2() versioning.Version[Action] {
	return versioning.NewVersion(biav2.Kind(), newV2, versioning.Calls{
		backupitemactionv2.BackupItemAction_AppliesTo_FullMethodName: {Class: versioning.Query, Repeatable: true,
			Constant: true},
		backupitemactionv2.BackupItemAction_Execute_FullMethodName:  {Class: versioning.Execute},
		backupitemactionv2.BackupItemAction_Progress_FullMethodName: {Class: versioning.Query, Repeatable: true},
		backupitemactionv2.BackupItemAction_Cancel_FullMethodName:   {Class: versioning.Query},
	})
}

func newV2(p versioning.Plugin, conn grpc.ClientConnInterface) Action {
	return v2{Plugin: p, client: backupitemactionv2.NewBackupItemActionClient(conn)}
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
