package webhooks_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/actiontest"
	"github.com/cleat-dev/cleat/plugins/itemactions/webhooks"
)

func configuration(hooks string) string {
	return `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration","metadata":{"name":"c"},"webhooks":` + hooks + `}`
}

func TestSideEffectsNotAllowedInV1BecomeNone(t *testing.T) {
	t.Parallel()
	action, err := webhooks.NewRestore(t.Context(), nil)
	require.NoError(t, err)
	selector, err := action.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, framework.ResourceSelector{IncludedResources: []string{
		"mutatingwebhookconfigurations.admissionregistration.k8s.io",
		"validatingwebhookconfigurations.admissionregistration.k8s.io",
	}}, selector)

	full := configuration(`[{"name":"a","sideEffects":"Unknown"},{"name":"b","sideEffects":"NoneOnDryRun"},{"name":"c"},{"name":"d","sideEffects":"Some"}]`)
	for name, row := range map[string]actiontest.Restore{
		"the wrong ones": {
			Item: full,
			Want: configuration(`[{"name":"a","sideEffects":"None"},{"name":"b","sideEffects":"NoneOnDryRun"},{"name":"c","sideEffects":"None"},{"name":"d","sideEffects":"None"}]`),
		},
		"all are right":      {Item: configuration(`[{"name":"a","sideEffects":"None"}]`)},
		"no webhooks":        {Item: configuration(`null`)},
		"v1beta1 allows all": {Item: strings.Replace(full, "k8s.io/v1", "k8s.io/v1beta1", 1)},
		"a hook is none": {Item: configuration(`[{"sideEffects":"None"},null]`),
			Err: "webhooks[1] is null, want an object"},
		"foreign effects": {Item: configuration(`[{"sideEffects":false}]`),
			Err: "webhooks[0].sideEffects is a boolean, want a string"},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); row.Run(t, action) })
	}
	actiontest.RestoreShapes(t, action, full, velerov1.RestoreSpec{})
}
