package loadkey_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/loadproof"
	"github.com/cleat-dev/cleat/server/internal/kube/loadkey"
	"github.com/cleat-dev/cleat/server/internal/kube/signing"
)

func cluster(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	return fake.NewClientBuilder().WithScheme(scheme).Build()
}

func TestServersAndAgentsHaveTheSameKeys(t *testing.T) {
	t.Parallel()
	api, now := cluster(t), time.Now()
	clock := func() time.Time { return now }
	agent := loadkey.New(signing.Open(api, nil, "velero", clock))
	_, err := agent.Of(t.Context(), "Backup", "uid")
	require.ErrorContains(t, err, "Secret velero/cleat-signing-key does not exist yet; the server creates it when it "+
		"starts")
	server := loadkey.New(signing.Open(api, api, "velero", clock))
	made, err := server.Of(t.Context(), "Backup", "uid")
	require.NoError(t, err)
	for _, other := range []*loadkey.Keys{agent, loadkey.New(signing.Open(api, api, "velero", clock))} {
		same, err := other.Of(t.Context(), "Backup", "uid")
		require.NoError(t, err)
		require.Equal(t, made, same)
	}
	different, err := server.Of(t.Context(), "Restore", "uid")
	require.NoError(t, err)
	require.NotEqual(t, made, different)

	secret := new(corev1.Secret)
	require.NoError(t, api.Get(t.Context(), client.ObjectKey{Namespace: "velero", Name: signing.SecretName}, secret))
	require.Equal(t, "true", secret.Labels[velerov1.ExcludeFromBackupLabel])

	// Without the Secret, the server makes another. An agent learns that from the first signature that does not fit.
	require.NoError(t, api.Delete(t.Context(), secret))
	now = now.Add(2 * time.Minute)
	replaced, err := server.Of(t.Context(), "Backup", "uid")
	require.NoError(t, err)
	require.NotEqual(t, made, replaced)
	fits := func(key loadproof.Key) error {
		if !assert.ObjectsAreEqual(replaced, key) {
			return errors.New("another key")
		}
		return nil
	}
	now = now.Add(-time.Minute - time.Second) // the agent need not look again yet
	wrong, err := agent.Verify(t.Context(), "Backup", "uid", fits)
	require.NoError(t, err)
	require.NoError(t, wrong)

	secret = new(corev1.Secret)
	require.NoError(t, api.Get(t.Context(), client.ObjectKey{Namespace: "velero", Name: signing.SecretName}, secret))
	secret.Data = map[string][]byte{"key": []byte("short")}
	require.NoError(t, api.Update(t.Context(), secret))
	_, err = loadkey.New(signing.Open(api, api, "velero", clock)).Of(t.Context(), "Backup", "uid")
	require.ErrorContains(t, err, "data.key has 5 bytes, want 32 random ones; delete the Secret")
}

func TestOnlyTheServerWritesKeysForPlugins(t *testing.T) {
	t.Parallel()
	api := cluster(t)
	keys := loadkey.New(signing.Open(api, api, "velero", time.Now))
	object := []byte(`{"metadata":{"name":"b","annotations":{"cleat.dev/load-key":"mine","cleat.dev/stored-volumes":"{}","other":"<1>"}},"spec":{"a":1.0}}`)
	annotations := func(raw []byte) map[string]string {
		var b velerov1.Backup
		require.NoError(t, json.Unmarshal(raw, &b))
		return b.Annotations
	}
	with, err := keys.ForPlugins(t.Context(), "Backup", "uid", object)
	require.NoError(t, err)
	key, err := keys.Of(t.Context(), "Backup", "uid")
	require.NoError(t, err)
	require.Equal(t, key, loadproof.Parse(annotations(with)[velerov1.LoadKeyAnnotation]))
	require.Len(t, annotations(with), 2)
	without, err := (*loadkey.Keys)(nil).ForPlugins(t.Context(), "Backup", "uid", object)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"other": "<1>"}, annotations(without))
}
