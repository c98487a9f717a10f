package namespaceoverlap_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/plugintest"
	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
	"github.com/cleat-dev/cleat/plugins/queueadmission/namespaceoverlap"
)

func TestBackupsOfOneNamespaceWaitForEachOther(t *testing.T) {
	t.Parallel()
	policy := plugintest.Run(t, namespaceoverlap.Register()).QueueAdmissionV1(namespaceoverlap.Name)
	decision, err := policy.Decide(t.Context(), &qav1.DecideInput{Limit: 3, Queued: []qav1.Backup{
		{Name: "a", Namespaces: []string{"shop"}, Spec: []byte("{}")},
		{Name: "b", Namespaces: []string{"shop", "yard"}, Spec: []byte(`{"includedResources":["secrets"]}`)},
		{Name: "c", Namespaces: []string{"yard"}, Spec: []byte("{}")},
		{Name: "d", Namespaces: []string{"home"}, Spec: []byte("{}")},
	}})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "d"}, decision.Admit)
	require.Equal(t, []string{"b", "c"}, decision.Order)
	require.Equal(t, qav1.Wait{
		Name: "b", Reason: "NamespaceOverlap", Message: "shares namespace shop with a, which runs",
		Blockers: []string{"a"}, Namespaces: []string{"shop"},
	}, decision.Waits[0])
}
