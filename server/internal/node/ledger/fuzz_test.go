package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/cleat-dev/cleat/server/internal/kube/signing"
	"github.com/cleat-dev/cleat/server/internal/node/ledger"
)

// FuzzRead shows that the ledger of any signed ConfigMap can be changed and written.
func FuzzRead(f *testing.F) {
	f.Add(`{"a":{"version":"1"},"b":null}`, `{"node":"1"}`)
	f.Add(`null`, `null`)
	f.Add(`[null]`, `{}`)
	f.Fuzz(func(t *testing.T, loads, agents string) {
		key := signing.NewKey([]byte("k"))
		cm := &corev1.ConfigMap{Data: map[string]string{"loads": loads, "agents": agents,
			"proof": key.Sign("ledger", "", loads, agents)}}
		l, _ := ledger.Read(cm, key)
		require.False(t, l.Unproven)
		l.Loads["new"] = ledger.Note{}
		l.Agents["new"] = "1"
		_, err := l.ConfigMap(new(corev1.ConfigMap), key)
		require.NoError(t, err)
	})
}
