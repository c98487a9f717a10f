package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	"github.com/cleat-dev/cleat/framework/plugintest"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
)

type fields = map[string]any

func object(kind string, annotations any) *unstructured.Unstructured {
	metadata := fields{"namespace": "shop", "name": "web"}
	if annotations != nil {
		metadata["annotations"] = annotations
	}
	return &unstructured.Unstructured{Object: fields{
		"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": fields{"unknown": []any{int64(1), nil}},
	}}
}

// run runs both actions in the test's own process, behind the real wire.
func run(t *testing.T) (biav1.BackupItemAction, riav1.RestoreItemAction, *plugintest.Plugin) {
	t.Helper()
	plugin := plugintest.Run(t, biav1.Register("example.io/mark", newMark), riav1.Register("example.io/unmark", newUnmark))
	return plugin.BackupItemActionV1("example.io/mark"), plugin.RestoreItemActionV1("example.io/unmark"), plugin
}

func backedUp(item *unstructured.Unstructured) *biav1.ExecuteInput {
	return &biav1.ExecuteInput{Item: item, Backup: plugintest.Backup("nightly")}
}

func restored(item *unstructured.Unstructured) *riav1.ExecuteInput {
	return &riav1.ExecuteInput{Item: item, ItemFromBackup: item, Restore: plugintest.Restore("back", "nightly")}
}

func TestMarkWritesTheBackupsNameAndLogsTheItem(t *testing.T) {
	t.Parallel()
	secret := framework.ResourceIdentifier{Resource: "secrets", Namespace: "shop", Name: "web-tls"}
	tests := map[string]struct {
		kind       string
		before     fields
		after      fields
		additional []framework.ResourceIdentifier
	}{
		"without annotations": {"ConfigMap", nil, fields{markedBy: "nightly"}, nil},
		"beside others":       {"ConfigMap", fields{"team": "core"}, fields{"team": "core", markedBy: "nightly"}, nil},
		"over an older mark":  {"Deployment", fields{markedBy: "yesterday"}, fields{markedBy: "nightly"}, nil},
		"with a secret": {
			"ConfigMap", fields{withSecret: "web-tls"}, fields{withSecret: "web-tls", markedBy: "nightly"},
			[]framework.ResourceIdentifier{secret},
		},
		"an empty wish is none": {"ConfigMap", fields{withSecret: ""}, fields{withSecret: "", markedBy: "nightly"}, nil},
		"only config maps may wish": {"Deployment", fields{withSecret: "x"}, fields{withSecret: "x", markedBy: "nightly"},
			nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, _, plugin := run(t)
			var annotations any
			if test.before != nil {
				annotations = test.before
			}
			output, err := m.Execute(t.Context(), backedUp(object(test.kind, annotations)))
			require.NoError(t, err)
			require.Equal(t, object(test.kind, test.after).Object, output.UpdatedItem.Object)
			require.Equal(t, test.additional, output.AdditionalItems)
			line := plugin.AwaitLog("marked for backup")
			require.Equal(t, test.kind, line.Fields["kind"])
			require.Equal(t, "shop", line.Fields["namespace"])
			require.Equal(t, "web", line.Fields["name"])
		})
	}
}

func TestUnmarkRemovesOnlyTheMark(t *testing.T) {
	t.Parallel()
	_, u, _ := run(t)
	output, err := u.Execute(t.Context(), restored(object("ConfigMap", fields{"team": "core", markedBy: "nightly"})))
	require.NoError(t, err)
	require.Equal(t, object("ConfigMap", fields{"team": "core"}).Object, output.UpdatedItem.Object)
	require.Empty(t, output.AdditionalItems)
}

func TestUnmarkLeavesWhatHasNoMark(t *testing.T) {
	t.Parallel()
	_, u, _ := run(t)
	for _, annotations := range []any{nil, fields{"team": "core"}} {
		output, err := u.Execute(t.Context(), restored(object("ConfigMap", annotations)))
		require.NoError(t, err)
		require.Equal(t, object("ConfigMap", annotations), output.UpdatedItem)
	}
}

func TestARoundTripLeavesNoTrace(t *testing.T) {
	t.Parallel()
	m, u, _ := run(t)
	for _, annotations := range []any{nil, fields{"team": "core"}} {
		marked, err := m.Execute(t.Context(), backedUp(object("ConfigMap", annotations)))
		require.NoError(t, err)
		output, err := u.Execute(t.Context(), restored(marked.UpdatedItem))
		require.NoError(t, err)
		require.Equal(t, object("ConfigMap", annotations), output.UpdatedItem)
	}
}

func TestForeignShapesAreErrorsThatNameTheField(t *testing.T) {
	t.Parallel()
	m, u, _ := run(t)
	for name, annotations := range map[string]any{
		"a list": []any{"x"}, "a number as value": fields{"x": int64(1)}, "null as value": fields{"x": nil},
	} {
		_, err := m.Execute(t.Context(), backedUp(object("ConfigMap", annotations)))
		require.ErrorContains(t, err, ".metadata.annotations", name)
		_, err = u.Execute(t.Context(), restored(object("ConfigMap", annotations)))
		require.ErrorContains(t, err, ".metadata.annotations", name)
	}
}
