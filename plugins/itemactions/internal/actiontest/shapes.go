package actiontest

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
)

// BackupShapes gives each field of the item each wrong type. The action may return an error but must not panic.
func BackupShapes(t *testing.T, action biav1.BackupItemAction, item string) {
	t.Helper()
	shapes(t, item, func(changed *unstructured.Unstructured) error {
		_, err := action.Execute(t.Context(), &biav1.ExecuteInput{Item: changed, Backup: &velerov1.Backup{}})
		return err
	})
}

// RestoreShapes is like BackupShapes, for a restore.
func RestoreShapes(t *testing.T, action riav1.RestoreItemAction, item string, spec velerov1.RestoreSpec) {
	t.Helper()
	shapes(t, item, func(changed *unstructured.Unstructured) error {
		_, err := action.Execute(t.Context(), &riav1.ExecuteInput{
			Item: changed, ItemFromBackup: changed.DeepCopy(), Restore: &velerov1.Restore{Spec: spec},
		})
		return err
	})
}

// shapes calls execute for each change. At least one call must return an error: otherwise the sample has no field that
// the action reads.
func shapes(t *testing.T, text string, execute func(*unstructured.Unstructured) error) {
	t.Helper()
	sample := &unstructured.Unstructured{}
	require.NoError(t, sample.UnmarshalJSON([]byte(text)))
	failed := 0
	for i := range setters(sample.Object) {
		for _, wrong := range []any{nil, true, "text", int64(7), 1.5, []any{}, []any{nil, "x"}, map[string]any{},
			map[string]any{"x": nil}} {
			changed := sample.DeepCopy()
			setters(changed.Object)[i](runtime.DeepCopyJSONValue(wrong))
			if execute(changed) != nil {
				failed++
			}
		}
	}
	require.Positive(t, failed, "no change of the sample was an error")
}

// setters returns a function for each value inside value that replaces it. The order is always the same.
func setters(value any) []func(any) {
	var all []func(any)
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			all = append(all, func(other any) { value[key] = other })
			all = append(all, setters(value[key])...)
		}
	case []any:
		for i := range value {
			all = append(all, func(other any) { value[i] = other })
			all = append(all, setters(value[i])...)
		}
	}
	return all
}
