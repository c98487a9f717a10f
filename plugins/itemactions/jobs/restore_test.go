package jobs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/actiontest"
	"github.com/cleat-dev/cleat/plugins/itemactions/jobs"
)

func job(spec string) string {
	return `{"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":"shop","name":"once"},"spec":` + spec + `}`
}

func TestRestoredJobDoesNotNameUIDOfAnotherJob(t *testing.T) {
	t.Parallel()
	action, err := jobs.NewRestore(t.Context(), nil)
	require.NoError(t, err)
	selector, err := action.AppliesTo(t.Context())
	require.NoError(t, err)
	require.Equal(t, framework.ResourceSelector{IncludedResources: []string{"jobs.batch"}}, selector)

	full := job(`{"selector":{"matchLabels":{"batch.kubernetes.io/controller-uid":"u","controller-uid":"u","app":"x"}},
		"template":{"metadata":{"labels":{"batch.kubernetes.io/controller-uid":"u","controller-uid":"u","job-name":"once"}}}}`)
	for name, row := range map[string]actiontest.Restore{
		"both labels go from both places": {
			Item: full,
			Want: job(`{"selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"job-name":"once"}}}}`),
		},
		"nothing else was there": {
			Item: job(`{"selector":{"matchLabels":{"controller-uid":"u"}},"template":{"metadata":{"labels":{"controller-uid":"u"}}}}`),
			Want: job(`{"selector":{},"template":{"metadata":{}}}`),
		},
		"the template only": {
			Item: job(`{"template":{"metadata":{"labels":{"controller-uid":"u","a":"b"}}}}`),
			Want: job(`{"template":{"metadata":{"labels":{"a":"b"}}}}`),
		},
		"a user's selector": {Item: job(`{"manualSelector":true,"selector":{"matchLabels":{"app":"x"}}}`)},
		"no spec":           {Item: `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"once"}}`},
		"foreign selector":  {Item: job(`{"selector":"app=x"}`), Err: "spec.selector is a string, want an object"},
		"foreign label": {
			Item: job(`{"template":{"metadata":{"labels":{"a":["b"]}}}}`),
			Err:  "spec.template.metadata.labels.a is a list, want a string",
		},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); row.Run(t, action) })
	}
	actiontest.RestoreShapes(t, action, full, velerov1.RestoreSpec{})
}
