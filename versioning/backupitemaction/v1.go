package backupitemaction

import (
	"context"

	"google.golang.org/grpc"

	"github.com/cleat-dev/cleat/framework"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	backupitemactionv1 "github.com/cleat-dev/cleat/proto/velero/backupitemaction/v1"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/internal/reply"
)

// V1 describes version 1 of the kind.
func V1() versioning.Version[Action] {
	return versioning.NewVersion(biav1.Kind(), newV1, versioning.Calls{
		backupitemactionv1.BackupItemAction_AppliesTo_FullMethodName: {Class: versioning.Query, Repeatable: true,
			Constant: true},
		backupitemactionv1.BackupItemAction_Execute_FullMethodName: {Class: versioning.Execute},
	})
}

// newV1 returns the facade of p at version 1 of the kind: it starts no operations.
func newV1(p versioning.Plugin, conn grpc.ClientConnInterface) Action {
	return v1{Plugin: p, client: backupitemactionv1.NewBackupItemActionClient(conn)}
}

type v1 struct {
	versioning.Plugin
	versioning.OneByOne
	client backupitemactionv1.BackupItemActionClient
}

func (a v1) AppliesTo(ctx context.Context) (framework.ResourceSelector, error) {
	return versioning.Ask(ctx, a.Plugin, a.client.AppliesTo,
		&backupitemactionv1.BackupItemActionAppliesToRequest{Plugin: a.Name()}, versioning.Selector)
}

func (v1) Starts() versioning.Starts { return versioning.NoOperations }

func (a v1) Execute(ctx context.Context, item, backup []byte) (*Result, error) {
	return versioning.Ask(ctx, a.Plugin, a.client.Execute, &backupitemactionv1.ExecuteRequest{
		Plugin: a.Name(), Item: item, Backup: backup,
	}, func(answer *backupitemactionv1.ExecuteResponse) (*Result, error) {
		if err := validateItem(item, answer.GetItem()); err != nil {
			return nil, err
		}
		additional, err := reply.Identifiers("additionalItems", answer.GetAdditionalItems())
		return &Result{Item: answer.GetItem(), AdditionalItems: additional}, err
	})
}

func (a v1) Progress(context.Context, string, []byte) (framework.OperationProgress, error) {
	return framework.OperationProgress{}, a.Wrap(versioning.ErrNoOperations)
}

func (a v1) Cancel(context.Context, string, []byte) error { return nil }
