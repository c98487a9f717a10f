package ledger_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cleat-dev/cleat/server/internal/kube/signing"
	"github.com/cleat-dev/cleat/server/internal/node/ledger"
)

func TestOnlyWhatAgentsHaveWrittenIsRead(t *testing.T) {
	t.Parallel()
	key := signing.NewKey([]byte("k"))
	written := ledger.Ledger{Loads: map[types.UID]ledger.Note{"u": {Kind: "DataUpload", Name: "l", Version: "1",
		Node: "n"}}, Agents: map[string]string{"n": "p"}}
	cm, err := written.ConfigMap(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: ledger.Name}},
		key)
	require.NoError(t, err)
	read, err := ledger.Read(cm, key)
	require.NoError(t, err)
	require.Equal(t, written, read)
	for name, forge := range map[string]func(*corev1.ConfigMap){
		"a note": func(cm *corev1.ConfigMap) {
			cm.Data["loads"] = `{"v":{"kind":"DataUpload","name":"a/b","version":"1"}}`
		},
		"an agent":           func(cm *corev1.ConfigMap) { cm.Data["agents"] = `{"ghost":"p"}` },
		"without a proof":    func(cm *corev1.ConfigMap) { delete(cm.Data, "proof") },
		"another namespace":  func(cm *corev1.ConfigMap) { cm.Namespace = "other" },
		"nothing but a note": func(cm *corev1.ConfigMap) { cm.Data = map[string]string{"loads": cm.Data["loads"]} },
	} {
		forged := cm.DeepCopy()
		forge(forged)
		read, err := ledger.Read(forged, key)
		require.ErrorContains(t, err, "has no proof that a node agent has written it", name)
		require.Empty(t, read.Loads, name)
		require.Empty(t, read.Agents, name)
		require.True(t, read.Unproven, name)
	}
	read, err = ledger.Read(new(corev1.ConfigMap), key)
	require.NoError(t, err)
	require.False(t, read.Unproven)
}
