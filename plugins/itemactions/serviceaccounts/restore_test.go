package serviceaccounts_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/actiontest"
	"github.com/cleat-dev/cleat/plugins/itemactions/serviceaccounts"
)

func TestReferenceToTokenOfOldClusterIsRemoved(t *testing.T) {
	t.Parallel()
	action, err := serviceaccounts.NewRestore(t.Context(), nil)
	require.NoError(t, err)
	selector, err := action.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, framework.ResourceSelector{IncludedResources: []string{"serviceaccounts"}}, selector)

	account := func(secrets string) string {
		return `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"namespace":"shop","name":"bar"},"imagePullSecrets":[{"name":"bar-token-pull"}]` + secrets + `}`
	}
	for name, row := range map[string]actiontest.Restore{
		"none":     {Item: account("")},
		"no match": {Item: account(`,"secrets":[{"name":"a"},{"name":"bar-TOKEN-x"},{"name":"foo-bar-token-x"}]`)},
		"at the start": {Item: account(`,"secrets":[{"name":"bar-token-x7k2p"},{"name":"a"}]`),
			Want: account(`,"secrets":[{"name":"a"}]`)},
		"in the middle": {Item: account(`,"secrets":[{"name":"a"},{"name":"bar-token-x7k2p"},{"name":"b","kind":"Secret"}]`),
			Want: account(`,"secrets":[{"name":"a"},{"name":"b","kind":"Secret"}]`)},
		"alone": {Item: account(`,"secrets":[{"name":"bar-token-x7k2p"}]`), Want: account("")},
		"the last of several": {
			Item: account(`,"secrets":[{"name":"bar-token-mine"},{"name":"bar-token-x7k2p"}]`),
			Want: account(`,"secrets":[{"name":"bar-token-mine"}]`),
		},
		"foreign list":      {Item: account(`,"secrets":"bar-token-x"`), Err: "secrets is a string, want a list"},
		"foreign reference": {Item: account(`,"secrets":[{},{"name":1}]`), Err: "secrets[1].name is a number, want a string"},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); row.Run(t, action) })
	}
	actiontest.RestoreShapes(t, action, account(`,"secrets":[{"name":"bar-token-x"},{"name":"a"}]`),
		velerov1.RestoreSpec{})
}
