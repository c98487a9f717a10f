package backupitemaction

import (
	"context"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	asyncbackupitemactionv1 "github.com/cleat-dev/cleat/proto/cleat/asyncbackupitemaction/v1"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/internal/reply"
)

// AsyncV1 describes version 1 of the kind AsyncBackupItemAction.
func AsyncV1() versioning.Version[Action] {
	return versioning.NewVersion(abiav1.Kind(), newAsyncV1, versioning.Calls{
		asyncbackupitemactionv1.AsyncBackupItemActionService_AppliesTo_FullMethodName: {Class: versioning.Query,
			Repeatable: true, Constant: true},
		// Start is idempotent because of its key.
		asyncbackupitemactionv1.AsyncBackupItemActionService_Start_FullMethodName: {Class: versioning.Execute,
			Repeatable: true},
		asyncbackupitemactionv1.AsyncBackupItemActionService_Progress_FullMethodName: {Class: versioning.Query,
			Repeatable: true},
		// Progress is called for operations without an answer.
		asyncbackupitemactionv1.AsyncBackupItemActionService_ProgressOfMany_FullMethodName: {Class: versioning.Query},
		asyncbackupitemactionv1.AsyncBackupItemActionService_Cancel_FullMethodName:         {Class: versioning.Query},
	})
}

// newAsyncV1 returns the facade of p at version 1. Execute calls Start; the result has no operation if the plugin had
// nothing to start.
func newAsyncV1(p versioning.Plugin, conn grpc.ClientConnInterface) Action {
	return asyncV1{
		Plugin: p, Many: new(versioning.Many),
		client: asyncbackupitemactionv1.NewAsyncBackupItemActionServiceClient(conn),
	}
}

type asyncV1 struct {
	versioning.Plugin
	*versioning.Many
	client asyncbackupitemactionv1.AsyncBackupItemActionServiceClient
}

func (a asyncV1) AppliesTo(ctx context.Context) (framework.ResourceSelector, error) {
	return versioning.Ask(ctx, a.Plugin, a.client.AppliesTo, &asyncbackupitemactionv1.AppliesToRequest{Plugin: a.Name()},
		versioning.Selector)
}

func (asyncV1) Starts() versioning.Starts { return versioning.Keyed }

func (a asyncV1) Execute(ctx context.Context, item, backup []byte) (*Result, error) {
	key, err := reply.StartKey(backup, item)
	if err != nil {
		return nil, a.Wrap(err)
	}
	return versioning.Ask(ctx, a.Plugin, a.client.Start, &asyncbackupitemactionv1.StartRequest{
		Plugin: a.Name(), Item: item, Backup: backup, Key: key,
	}, func(answer *asyncbackupitemactionv1.StartResponse) (*Result, error) {
		return checkResult(item, answer.GetItem(), answer.GetAdditionalItems(), answer.GetOperationId(),
			answer.GetPostOperationItems())
	})
}

func (a asyncV1) Progress(ctx context.Context, operationID string, backup []byte) (framework.OperationProgress, error) {
	return versioning.Ask(ctx, a.Plugin, a.client.Progress, &asyncbackupitemactionv1.ProgressRequest{
		Plugin: a.Name(), OperationId: operationID, Backup: backup,
	}, versioning.ProgressAndLines)
}

func (a asyncV1) ProgressOfMany(
	ctx context.Context, operationIDs []string, backup []byte,
) (map[string]framework.OperationProgress, error) {
	answers, err := versioning.Ask(ctx, a.Plugin, a.client.ProgressOfMany, &asyncbackupitemactionv1.ProgressOfManyRequest{
		Plugin: a.Name(), OperationIds: operationIDs, Backup: backup,
	}, versioning.ManyProgress)
	return answers, a.Answered(err)
}

func (a asyncV1) Cancel(ctx context.Context, operationID string, backup []byte) error {
	answer, err := a.client.Cancel(ctx, &asyncbackupitemactionv1.CancelRequest{
		Plugin: a.Name(), OperationId: operationID, Backup: backup,
	})
	if err == nil && !answer.GetAck() {
		err = versioning.ErrNotCancelled
	}
	return a.Wrap(err)
}
