package signing

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestProofIsOfItsPartsOnly(t *testing.T) {
	t.Parallel()
	key := NewKey([]byte("one"))
	proof := key.Sign("p", "a", "bc")
	require.True(t, key.Proves(proof, "p", "a", "bc"))
	for name, other := range map[string]bool{
		"another purpose": key.Proves(proof, "q", "a", "bc"),
		"other parts":     key.Proves(proof, "p", "a", "bd"),
		"split elsewhere": key.Proves(proof, "p", "ab", "c"),
		"more parts":      key.Proves(proof, "p", "a", "bc", ""),
		"fewer parts":     key.Proves(proof, "p", "abc"),
		"another key":     NewKey([]byte("two")).Proves(proof, "p", "a", "bc"),
		"cut":             key.Proves(proof[:20], "p", "a", "bc"),
		"empty":           key.Proves("", "p", "a", "bc"),
		"no base64":       key.Proves("%", "p", "a", "bc"),
	} {
		require.False(t, other, name)
	}
}

func TestKeyIsMadeOnce(t *testing.T) {
	t.Parallel()
	cluster := fake.NewClientBuilder().Build()
	_, err := Open(cluster, nil, "n", time.Now).Get(t.Context())
	require.ErrorContains(t, err, "the Secret n/cleat-signing-key does not exist yet; the server creates it when it "+
		"starts")
	one, err := Open(cluster, cluster, "n", time.Now).Get(t.Context())
	require.NoError(t, err)
	for range 2 {
		again, err := Open(cluster, nil, "n", time.Now).Get(t.Context())
		require.NoError(t, err)
		require.True(t, again.Proves(one.Sign("p"), "p"))
	}
	require.NoError(t, cluster.Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "m", Name: SecretName},
			Data: map[string][]byte{"key": []byte("x")}}))
	_, err = Open(cluster, cluster, "m", time.Now).Get(t.Context())
	require.ErrorContains(t, err, "want 32 random ones")
}
