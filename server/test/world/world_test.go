package world

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestCompareReportsOnlyIllegitimateChanges(t *testing.T) {
	t.Parallel()
	base := func() *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: fields{
			"apiVersion": "v1", "kind": "Service",
			"metadata": fields{
				"name": "s", "namespace": "n", "uid": "u1", "resourceVersion": "1", "generation": int64(1),
				"labels": fields{"app": "x"}, "finalizers": []any{"a/b"},
				"managedFields": []any{fields{"manager": "helm", "operation": "Update", "apiVersion": "v1",
					"time":       "2020-01-01T00:00:00Z",
					"fieldsType": "FieldsV1", "fieldsV1": fields{"f:metadata": fields{"f:labels": fields{"f:app": fields{}}},
						"f:spec": fields{"f:type": fields{}}}}},
			},
			"spec": fields{"type": "ClusterIP", "clusterIP": "10.0.0.1",
				"ports": []any{fields{"port": int64(80), "nodePort": int64(30000)}}},
			"status": fields{"loadBalancer": fields{}},
		}}
	}
	set := func(value any, path ...string) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			require.NoError(t, unstructured.SetNestedField(u.Object, value, path...))
		}
	}
	tests := map[string]struct {
		change func(*unstructured.Unstructured)
		want   []string
	}{
		"uid":           {set("u2", "metadata", "uid"), nil},
		"version":       {set("9", "metadata", "resourceVersion"), nil},
		"cluster IP":    {set("10.0.0.9", "spec", "clusterIP"), nil},
		"restore label": {set("r", "metadata", "labels", "velero.io/restore-name"), nil},
		"status":        {set("x", "status", "phase"), nil},
		"owner": {func(u *unstructured.Unstructured) { u.SetOwnerReferences([]metav1.OwnerReference{{Name: "o"}}) },
			nil},
		"label":          {set("y", "metadata", "labels", "app"), []string{"metadata.labels.app"}},
		"new annotation": {set("y", "metadata", "annotations", "k"), []string{"metadata.annotations"}},
		"finalizer lost": {func(u *unstructured.Unstructured) { u.SetFinalizers(nil) }, []string{"metadata.finalizers"}},
		"spec":           {set("NodePort", "spec", "type"), []string{"spec.type"}},
		"owner of field": {func(u *unstructured.Unstructured) {
			entries := u.GetManagedFields()
			entries[0].Manager = "another"
			u.SetManagedFields(entries)
		}, []string{"metadata.managedFields"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := base(), base()
			tt.change(after)
			var got []string
			for _, d := range Compare(Snapshot{"k": before}, Snapshot{"k": after}) {
				got = append(got, d.Path)
			}
			require.Equal(t, tt.want, got)
		})
	}
	require.Len(t, Compare(Snapshot{"k": base()}, Snapshot{}), 1, "a missing object must be a difference")
	require.Len(t, Compare(Snapshot{}, Snapshot{"k": base()}), 1, "an additional object must be a difference")
}
