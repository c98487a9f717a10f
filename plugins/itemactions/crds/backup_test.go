package crds_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/crds"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/actiontest"
)

func TestLegacyDefinitionIsBackedUpAsV1beta1(t *testing.T) {
	t.Parallel()
	legacy := func(_ context.Context, name string) (*unstructured.Unstructured, error) {
		item := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"version": "v1"}}}
		item.SetName(name)
		return item, nil
	}
	action, err := crds.NewBackup(nil, legacy)
	require.NoError(t, err)
	selector, err := action.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"customresourcedefinitions.apiextensions.k8s.io"}, selector.IncludedResources)

	const remapped = `{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"CustomResourceDefinition","metadata":{"name":"a.example.org"},"spec":{"version":"v1"}}`
	const schema = `"versions":[{"name":"v1","schema":{"openAPIV3Schema":{"type":"object"}}}]`
	structural := strings.TrimSuffix(crd(`{`+schema+`}`), "}")
	full := structural + `,"status":{"conditions":[{"type":"Established"},{"type":"NonStructuralSchema"}]}}`
	for name, row := range map[string]struct {
		item string
		want string // "" if it is backed up as v1
		err  string
	}{
		"keeps unknown fields": {item: crd(`{"preserveUnknownFields":true,` + schema + `}`), want: remapped},
		"no schema": {item: crd(`{"versions":[{"name":"v1"},{"name":"v2","schema":{"openAPIV3Schema":{}}}]}`),
			want: remapped},
		"not structural":  {item: full, want: remapped},
		"structural":      {item: structural + `,"status":{"conditions":[{"type":"Established"}]}}`},
		"v1beta1 already": {item: strings.Replace(full, "k8s.io/v1", "k8s.io/v1beta1", 1)},
		"foreign": {item: crd(`{"versions":[{"schema":7}]}`),
			err: "spec.versions[0].schema is a number, want an object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			output, err := execute(t, action, row.item)
			switch {
			case row.err != "":
				require.EqualError(t, err, row.err)
			case row.want == "":
				require.NoError(t, err)
				require.Nil(t, output)
			default:
				require.NoError(t, err)
				text, err := output.MarshalJSON()
				require.NoError(t, err)
				require.JSONEq(t, row.want, string(text))
			}
		})
	}
	actiontest.BackupShapes(t, action, full)
}

func TestDefinitionStaysV1WhereV1beta1IsNotServed(t *testing.T) {
	t.Parallel()
	item := crd(`{"preserveUnknownFields":true}`)
	action, err := crds.NewBackup(nil, func(context.Context, string) (*unstructured.Unstructured, error) {
		return nil, nil
	})
	require.NoError(t, err)
	output, err := execute(t, action, item)
	require.NoError(t, err)
	require.Nil(t, output)

	action, err = crds.NewBackup(nil, func(context.Context, string) (*unstructured.Unstructured, error) {
		return nil, errors.New("no reply")
	})
	require.NoError(t, err)
	_, err = execute(t, action, item)
	require.EqualError(t, err, "read the definition as v1beta1: no reply")
}

func execute(t *testing.T, action biav1.BackupItemAction, text string) (*unstructured.Unstructured, error) {
	t.Helper()
	item := &unstructured.Unstructured{}
	require.NoError(t, item.UnmarshalJSON([]byte(text)))
	output, err := action.Execute(t.Context(), &biav1.ExecuteInput{Item: item, Backup: &velerov1.Backup{}})
	if output == nil {
		return nil, err
	}
	return output.UpdatedItem, err
}
