package plugintest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	biav2 "github.com/cleat-dev/cleat/framework/backupitemaction/v2"
	"github.com/cleat-dev/cleat/framework/plugintest"
)

// mark annotates items with the name of their backup.
type mark struct{ biav2.ExecuteOnly }

func newMark(context.Context, *framework.Setup) (biav2.BackupItemAction, error) { return mark{}, nil }

func (mark) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{}, nil
}

func (mark) Execute(ctx context.Context, input *biav2.ExecuteInput) (*biav2.ExecuteOutput, error) {
	input.Item.SetAnnotations(map[string]string{"example.io/backup": input.Backup.Name})
	framework.Log(ctx).Info("marked", "name", input.Item.GetName())
	return biav2.NewExecuteOutput(input.Item), nil
}

// TestMarkWritesTheNameOfTheBackup calls the action through its own interface, over the real protocol.
func TestMarkWritesTheNameOfTheBackup(t *testing.T) {
	t.Parallel()
	plugin := plugintest.Run(t, biav2.Register("example.io/mark", newMark))
	output, err := plugin.BackupItemActionV2("example.io/mark").Execute(t.Context(), &biav2.ExecuteInput{
		Item:   plugintest.Object(t, `{apiVersion: v1, kind: Secret, metadata: {namespace: shop, name: tls}}`),
		Backup: plugintest.Backup("nightly"),
	})
	require.NoError(t, err)
	require.Equal(t, "nightly", output.UpdatedItem.GetAnnotations()["example.io/backup"])
	require.Equal(t, "tls", plugin.AwaitLog("marked").Fields["name"])
}

// A test runs a plugin with Run in its own process, or with Start as a process of its own.
func ExampleRun() { _ = TestMarkWritesTheNameOfTheBackup }
