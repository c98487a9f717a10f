package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/cleat-dev/cleat/server/nodeagent/ledger"
)

// FuzzRead reads any ConfigMap. The ledger can be changed and written.
func FuzzRead(f *testing.F) {
	f.Add(`{"a":{"version":"1"},"b":null}`, `{"node":"1"}`)
	f.Add(`null`, `null`)
	f.Add(`[null]`, `{}`)
	f.Fuzz(func(t *testing.T, loads, agents string) {
		l, _ := ledger.Read(&corev1.ConfigMap{Data: map[string]string{"loads": loads, "agents": agents}})
		l.Loads["new"] = ledger.Note{}
		l.Agents["new"] = "1"
		_, err := l.ConfigMap(new(corev1.ConfigMap))
		require.NoError(t, err)
	})
}
