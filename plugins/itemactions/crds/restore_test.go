package crds_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/crds"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/actiontest"
)

func crd(spec string) string {
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"a.example.org"},"spec":` + spec + `}`
}

func TestPreserveUnknownFieldsMovesToSchemas(t *testing.T) {
	t.Parallel()
	action, err := crds.NewRestore(t.Context(), nil)
	require.NoError(t, err)
	selector, err := action.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"customresourcedefinitions.apiextensions.k8s.io"}, selector.IncludedResources)

	full := crd(`{"group":"example.org","preserveUnknownFields":true,"versions":[
		{"name":"v1","schema":{"openAPIV3Schema":{"type":"object","maximum":1,"minimum":1.5}}},
		{"name":"v2"},{"name":"v3","schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}`)
	for name, row := range map[string]actiontest.Restore{
		"each version that has a schema": {
			Item: full,
			Want: crd(`{"group":"example.org","versions":[
				{"name":"v1","schema":{"openAPIV3Schema":{"type":"object","maximum":1,"minimum":1.5,"x-kubernetes-preserve-unknown-fields":true}}},
				{"name":"v2"},{"name":"v3","schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}`),
		},
		"false is fine":      {Item: crd(`{"preserveUnknownFields":false,"versions":[{"schema":{"openAPIV3Schema":{}}}]}`)},
		"absent is fine":     {Item: crd(`{"versions":[{"schema":{"openAPIV3Schema":{}}}]}`)},
		"v1beta1 may say so": {Item: strings.Replace(full, "k8s.io/v1", "k8s.io/v1beta1", 1)},
		"foreign flag": {Item: crd(`{"preserveUnknownFields":"yes"}`),
			Err: "spec.preserveUnknownFields is a string, want true or false"},
		"foreign schema": {
			Item: crd(`{"preserveUnknownFields":true,"versions":[{},{"schema":{"openAPIV3Schema":[]}}]}`),
			Err:  "spec.versions[1].schema.openAPIV3Schema is a list, want an object",
		},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); row.Run(t, action) })
	}
	actiontest.RestoreShapes(t, action, full, velerov1.RestoreSpec{})
}
