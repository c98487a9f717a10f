package main

import (
	"bytes"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
)

type fields = map[string]any

func nightly() *velerov1.Backup {
	return &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "nightly"}}
}

func object(kind string, annotations any) *unstructured.Unstructured {
	metadata := fields{"namespace": "shop", "name": "web"}
	if annotations != nil {
		metadata["annotations"] = annotations
	}
	return &unstructured.Unstructured{Object: fields{
		"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": fields{"unknown": []any{int64(1), nil}},
	}}
}

func newActions(t *testing.T) (biav1.BackupItemAction, riav1.RestoreItemAction, *bytes.Buffer) {
	t.Helper()
	var lines bytes.Buffer
	log := hclog.New(&hclog.LoggerOptions{Output: &lines})
	m, err := newMark(log)
	require.NoError(t, err)
	u, err := newUnmark(log)
	require.NoError(t, err)
	return m, u, &lines
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
		"an empty wish is none":     {"ConfigMap", fields{withSecret: ""}, fields{withSecret: "", markedBy: "nightly"}, nil},
		"only config maps may wish": {"Deployment", fields{withSecret: "x"}, fields{withSecret: "x", markedBy: "nightly"}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, _, lines := newActions(t)
			var annotations any
			if test.before != nil {
				annotations = test.before
			}
			output, err := m.Execute(t.Context(), &biav1.ExecuteInput{Item: object(test.kind, annotations), Backup: nightly()})
			require.NoError(t, err)
			require.Equal(t, object(test.kind, test.after).Object, output.UpdatedItem.Object)
			require.Equal(t, test.additional, output.AdditionalItems)
			require.Contains(t, lines.String(), "marked for backup: kind="+test.kind+" namespace=shop name=web")
		})
	}
}

func TestUnmarkRemovesOnlyTheMark(t *testing.T) {
	t.Parallel()
	_, u, _ := newActions(t)
	input := &riav1.ExecuteInput{Item: object("ConfigMap", fields{"team": "core", markedBy: "nightly"})}
	output, err := u.Execute(t.Context(), input)
	require.NoError(t, err)
	require.Equal(t, object("ConfigMap", fields{"team": "core"}).Object, output.UpdatedItem.Object)
	require.Empty(t, output.AdditionalItems)
}

func TestUnmarkLeavesWhatHasNoMark(t *testing.T) {
	t.Parallel()
	_, u, _ := newActions(t)
	for _, annotations := range []any{nil, fields{"team": "core"}} {
		output, err := u.Execute(t.Context(), &riav1.ExecuteInput{Item: object("ConfigMap", annotations)})
		require.NoError(t, err)
		require.Nil(t, output)
	}
}

func TestARoundTripLeavesNoTrace(t *testing.T) {
	t.Parallel()
	m, u, _ := newActions(t)
	for _, annotations := range []any{nil, fields{"team": "core"}} {
		backedUp, err := m.Execute(t.Context(), &biav1.ExecuteInput{Item: object("ConfigMap", annotations), Backup: nightly()})
		require.NoError(t, err)
		restored, err := u.Execute(t.Context(), &riav1.ExecuteInput{Item: backedUp.UpdatedItem})
		require.NoError(t, err)
		require.Equal(t, object("ConfigMap", annotations).Object, restored.UpdatedItem.Object)
	}
}

func TestForeignShapesAreErrorsThatNameTheField(t *testing.T) {
	t.Parallel()
	m, u, _ := newActions(t)
	for name, annotations := range map[string]any{
		"a list": []any{"x"}, "a number as value": fields{"x": int64(1)}, "null as value": fields{"x": nil},
	} {
		_, err := m.Execute(t.Context(), &biav1.ExecuteInput{Item: object("ConfigMap", annotations), Backup: nightly()})
		require.ErrorContains(t, err, ".metadata.annotations", name)
		_, err = u.Execute(t.Context(), &riav1.ExecuteInput{Item: object("ConfigMap", annotations)})
		require.ErrorContains(t, err, ".metadata.annotations", name)
	}
}
