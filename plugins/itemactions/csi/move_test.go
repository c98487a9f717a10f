package csi

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
)

func TestStoredUploadsNameTheMoverOfVelero(t *testing.T) {
	t.Parallel()
	action, err := NewStoredUploads(t.Context(), nil)
	require.NoError(t, err)
	for mover, want := range map[any]any{
		velerov1.KopiaDataMover: "velero", velerov1.ResticDataMover: nil, "velero": nil, "": nil, "vendor.io/disks": nil,
	} {
		item := &unstructured.Unstructured{Object: map[string]any{
			"spec": map[string]any{"datamover": mover, "sourcePVC": "c"},
		}}
		output, err := action.Execute(t.Context(), &biav1.ExecuteInput{Item: item})
		require.NoError(t, err)
		if want == nil {
			require.Nil(t, output, mover)
			continue
		}
		require.Equal(t, map[string]any{"spec": map[string]any{"datamover": want, "sourcePVC": "c"}},
			output.UpdatedItem.Object)
	}
	output, err := action.Execute(t.Context(),
		&biav1.ExecuteInput{Item: &unstructured.Unstructured{Object: map[string]any{}}})
	require.NoError(t, err)
	require.Nil(t, output)
	_, err = action.Execute(t.Context(),
		&biav1.ExecuteInput{Item: &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"datamover": 1}}}})
	require.ErrorContains(t, err, "datamover")
}
