package apiservices_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/plugins/itemactions/apiservices"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/actiontest"
)

func TestAPIServicesOfTheAPIServerAreNotRestored(t *testing.T) {
	t.Parallel()
	action, err := apiservices.NewRestore(t.Context(), nil)
	require.NoError(t, err)
	selector, err := action.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, framework.ResourceSelector{
		IncludedResources: []string{"apiservices.apiregistration.k8s.io"},
		LabelSelector:     "kube-aggregator.kubernetes.io/automanaged",
	}, selector, "the label is what tells it from a user's")
	actiontest.Restore{
		Item: `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.apps","labels":{"kube-aggregator.kubernetes.io/automanaged":"onstart"}}}`,
		Skip: true,
	}.Run(t, action)
}
