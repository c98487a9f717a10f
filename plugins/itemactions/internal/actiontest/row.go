package actiontest

import (
	"encoding/json"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
)

// Backup is an item to back up and the expected result.
type Backup struct {
	Item   string
	Backup string // the name of the backup

	Want       string // "" if the item must not change
	Additional []framework.ResourceIdentifier
	Err        string // the whole message; the other expectations are ignored
}

// Run executes the action on the item and checks the result.
func (b Backup) Run(t *testing.T, action biav1.BackupItemAction) {
	t.Helper()
	item := withUnknown(t, b.Item)
	backup := &velerov1.Backup{}
	backup.Name = b.Backup
	output, err := action.Execute(t.Context(), &biav1.ExecuteInput{Item: item, Backup: backup})
	if b.Err != "" {
		require.EqualError(t, err, b.Err)
		return
	}
	require.NoError(t, err)
	if output == nil {
		output = &biav1.ExecuteOutput{}
	}
	require.Equal(t, b.Additional, output.AdditionalItems)
	requireItem(t, b.Item, b.Want, output.UpdatedItem)
}

// Restore is an item to restore and the expected result.
type Restore struct {
	Item       string
	FromBackup string // "" if it equals Item
	Spec       velerov1.RestoreSpec

	Want       string // "" if the item must not change
	Skip       bool   // the other expectations are ignored
	Additional []framework.ResourceIdentifier
	Err        string // the whole message; the other expectations are ignored
}

// Run executes the action on the item and checks the result.
func (r Restore) Run(t *testing.T, action riav1.RestoreItemAction) {
	t.Helper()
	if r.FromBackup == "" {
		r.FromBackup = r.Item
	}
	input := &riav1.ExecuteInput{
		Item: withUnknown(t, r.Item), ItemFromBackup: withUnknown(t, r.FromBackup), Restore: &velerov1.Restore{Spec: r.Spec},
	}
	output, err := action.Execute(t.Context(), input)
	if r.Err != "" {
		require.EqualError(t, err, r.Err)
		return
	}
	require.NoError(t, err)
	if output == nil {
		output = &riav1.ExecuteOutput{}
	}
	require.Equal(t, r.Skip, output.SkipRestore)
	if r.Skip {
		return
	}
	require.Equal(t, r.Additional, output.AdditionalItems)
	requireItem(t, r.Item, r.Want, output.UpdatedItem)
}

// Log returns a logger that formats the lines of the actions and discards them.
func Log() hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: nowhere{}})
}

type nowhere struct{}

func (nowhere) Write(line []byte) (int, error) { return len(line), nil }

func requireItem(t *testing.T, before, want string, updated *unstructured.Unstructured) {
	t.Helper()
	if updated == nil {
		require.Empty(t, want, "the item should have changed")
		return
	}
	if want == "" {
		want = before
	}
	require.JSONEq(t, encode(t, withUnknown(t, want)), encode(t, updated))
}

// withUnknown decodes an item and adds fields that no API has.
func withUnknown(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	item := &unstructured.Unstructured{}
	require.NoError(t, item.UnmarshalJSON([]byte(text)), text)
	for _, path := range [][]string{{}, {"metadata"}, {"spec"}} {
		at := item.Object
		for _, name := range path {
			at, _ = at[name].(map[string]any)
		}
		if at != nil {
			at["unknown"] = map[string]any{"list": []any{int64(1), 2.5, nil, "<&>"}, "empty": map[string]any{}}
		}
	}
	return item
}

func encode(t *testing.T, item *unstructured.Unstructured) string {
	t.Helper()
	text, err := json.Marshal(item.Object)
	require.NoError(t, err)
	return string(text)
}
