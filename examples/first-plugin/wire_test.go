package main

import (
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	"github.com/cleat-dev/cleat/framework/plugintest"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
)

// The test uses the plugin like a host: a binary, a process, a gRPC connection.
func TestTheBuiltPluginServesBothActionsOverTheWire(t *testing.T) {
	t.Parallel()
	plugin := plugintest.Start(t, plugintest.Build(t, "."), "--log-level=info")
	require.Equal(t, []plugintest.Registered{
		{Kind: "BackupItemAction", Version: 1, Name: "example.cleat.dev/mark"},
		{Kind: "RestoreItemAction", Version: 1, Name: "example.cleat.dev/unmark"},
	}, plugin.Registered())
	mark, unmark := plugin.BackupItemActionV1("example.cleat.dev/mark"), plugin.RestoreItemActionV1(
		"example.cleat.dev/unmark",
	)

	selector, err := mark.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"configmaps", "deployments.apps"}, selector.IncludedResources)

	item := plugintest.Object(t,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: web, namespace: shop}, unknown: {a: [1, 2.5, null]}}`)
	marked, err := mark.Execute(t.Context(), &biav1.ExecuteInput{Item: item, Backup: plugintest.Backup("nightly")})
	require.NoError(t, err)
	require.Equal(t, map[string]string{markedBy: "nightly"}, marked.UpdatedItem.GetAnnotations())

	restored, err := unmark.Execute(t.Context(), &riav1.ExecuteInput{
		Item: marked.UpdatedItem, ItemFromBackup: marked.UpdatedItem, Restore: plugintest.Restore("back", "nightly"),
	})
	require.NoError(t, err)
	require.Equal(t, item, restored.UpdatedItem, "fields that the plugin has never heard of stay where they are")

	line := plugin.AwaitLog("marked for backup")
	require.Equal(t, hclog.Info, line.Level)
	require.Equal(t, "shop", line.Fields["namespace"])
	require.Equal(t, "web", line.Fields["name"])
}
