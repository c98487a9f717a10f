package backupitemaction

import (
	"context"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	backupitemactionv2 "github.com/cleat-dev/cleat/proto/velero/backupitemaction/v2"
	"github.com/cleat-dev/cleat/versioning"
)

// NewV2 is the action listed as name in the plugin that conn reaches, at version 2 of the kind.
func NewV2(conn grpc.ClientConnInterface, name string) Action {
	return v2{
		Plugin: versioning.NewPlugin("BackupItemAction", name),
		client: backupitemactionv2.NewBackupItemActionClient(conn),
	}
}

type v2 struct {
	versioning.Plugin
	client backupitemactionv2.BackupItemActionClient
}

func (a v2) AppliesTo(ctx context.Context) (framework.ResourceSelector, error) {
	return a.CheckSelector(a.client.AppliesTo(ctx, &backupitemactionv2.BackupItemActionAppliesToRequest{Plugin: a.Name()}))
}

func (a v2) Execute(ctx context.Context, item, backup []byte) (*Result, error) {
	answer, err := a.client.Execute(ctx, &backupitemactionv2.ExecuteRequest{
		Plugin: a.Name(), Item: item, Backup: backup,
	})
	if err != nil {
		return nil, a.Wrap(err)
	}
	result, err := checkResult(item, answer.GetItem(), answer.GetAdditionalItems(), answer.GetOperationID(), answer.GetPostOperationItems())
	if err != nil {
		return nil, a.Reject(err)
	}
	return result, nil
}

func (a v2) Progress(ctx context.Context, operationID string, backup []byte) (framework.OperationProgress, error) {
	return a.CheckProgress(a.client.Progress(ctx, &backupitemactionv2.BackupItemActionProgressRequest{
		Plugin: a.Name(), OperationID: operationID, Backup: backup,
	}))
}

func (a v2) Cancel(ctx context.Context, operationID string, backup []byte) error {
	_, err := a.client.Cancel(ctx, &backupitemactionv2.BackupItemActionCancelRequest{
		Plugin: a.Name(), OperationID: operationID, Backup: backup,
	})
	return a.Wrap(err)
}
