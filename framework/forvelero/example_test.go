package forvelero_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
	ariav1 "github.com/cleat-dev/cleat/framework/asyncrestoreitemaction/v1"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	"github.com/cleat-dev/cleat/framework/forvelero"
	"github.com/cleat-dev/cleat/framework/plugintest"
	riav2 "github.com/cleat-dev/cleat/framework/restoreitemaction/v2"
)

const name = "example.io/mover"

// mover starts an operation whose id is the key.
type mover struct{}

func newMover(context.Context, *framework.Setup) (abiav1.AsyncBackupItemAction, error) {
	return mover{}, nil
}

func (mover) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"persistentvolumeclaims"}}, nil
}

func (mover) Start(_ context.Context, input *abiav1.StartInput) (*abiav1.StartOutput, error) {
	after := framework.ResourceIdentifier{Resource: "persistentvolumeclaims", Namespace: input.Item.GetNamespace(),
		Name: input.Item.GetName()}
	return abiav1.NewStartOutput(nil).WithOperation(input.Key, after), nil
}

func (mover) Progress(_ context.Context, input *abiav1.ProgressInput) (framework.OperationProgress, error) {
	return framework.OperationProgress{Completed: true, Description: input.OperationID + " of " + input.Backup.Name}, nil
}

func (mover) Cancel(context.Context, *abiav1.CancelInput) error { return framework.ErrCannotCancel }

// fetcher is mover for restores.
type fetcher struct{}

func newFetcher(context.Context, *framework.Setup) (ariav1.AsyncRestoreItemAction, error) {
	return fetcher{}, nil
}

func (fetcher) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{}, nil
}

func (fetcher) Start(_ context.Context, input *ariav1.StartInput) (*ariav1.StartOutput, error) {
	return ariav1.NewStartOutput(input.Item).WithOperation(input.Key).WithoutRestore(), nil
}

func (fetcher) Progress(_ context.Context, input *ariav1.ProgressInput) (framework.OperationProgress, error) {
	return framework.OperationProgress{Completed: true, Description: input.OperationID + " of " + input.Restore.Name}, nil
}

func (fetcher) Cancel(context.Context, *ariav1.CancelInput) error { return nil }

func Example() {
	framework.Serve(
		abiav1.Register(name, newMover), forvelero.AsyncBackupItemAction(name, newMover),
		ariav1.Register(name, newFetcher), forvelero.AsyncRestoreItemAction(name, newFetcher),
	)
}

const claim = `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: shop, name: data}}`

func TestAsyncBackupItemActionRunsAsBackupItemActionV2(t *testing.T) {
	t.Parallel()
	action := plugintest.Run(t, abiav1.Register(name, newMover),
		forvelero.AsyncBackupItemAction(name, newMover)).BackupItemActionV2(name)
	selector, err := action.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"persistentvolumeclaims"}, selector.IncludedResources)
	nightly := plugintest.Backup("nightly")
	input := &biav2.ExecuteInput{Item: plugintest.Object(t, claim), Backup: nightly}
	output, err := action.Execute(t.Context(), input)
	require.NoError(t, err)
	require.Equal(t, "backup-nightly/PersistentVolumeClaim/shop/data", output.OperationID)
	require.Len(t, output.PostOperationItems, 1)
	again, err := action.Execute(t.Context(), input)
	require.NoError(t, err)
	require.Equal(t, output.OperationID, again.OperationID)
	progress, err := action.Progress(t.Context(), &biav2.ProgressInput{OperationID: "op", Backup: nightly})
	require.NoError(t, err)
	require.Equal(t, "op of nightly", progress.Description)
	require.NoError(t, action.Cancel(t.Context(), &biav2.CancelInput{OperationID: "op", Backup: nightly}),
		"Velero has no word for it")
}

func TestAsyncRestoreItemActionRunsAsRestoreItemActionV2(t *testing.T) {
	t.Parallel()
	action := plugintest.Run(t, ariav1.Register(name, newFetcher),
		forvelero.AsyncRestoreItemAction(name, newFetcher)).RestoreItemActionV2(name)
	monday, item := plugintest.Restore("monday", "nightly"), plugintest.Object(t, claim)
	output, err := action.Execute(t.Context(), &riav2.ExecuteInput{Item: item, ItemFromBackup: item, Restore: monday})
	require.NoError(t, err)
	require.Equal(t, riav2.NewExecuteOutput(item).WithOperation(
		"restore-monday/PersistentVolumeClaim/shop/data",
	).WithoutRestore(), output)
	progress, err := action.Progress(t.Context(), &riav2.ProgressInput{OperationID: "op", Restore: monday})
	require.NoError(t, err)
	require.Equal(t, "op of monday", progress.Description)
	ready, err := action.AreAdditionalItemsReady(t.Context(), &riav2.AreAdditionalItemsReadyInput{Restore: monday})
	require.NoError(t, err)
	require.True(t, ready.Ready)
}
