package reply_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/versioning/internal/reply"
)

func TestStartKeyIdentifiesItemAndOwner(t *testing.T) {
	t.Parallel()
	const (
		owner = `{"metadata":{"namespace":"velero","name":"nightly","uid":"u-1"}}`
		item  = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":"web"},"spec":{"replicas":1}}`
	)
	seen := map[string]string{}
	for name, test := range map[string]struct{ owner, item, want string }{
		"an item": {owner, item, "u-1/Deployment.apps/shop/web"},
		"of core": {owner, `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"shop","name":"web"}}`,
			"u-1/Pod/shop/web"},
		"cluster-scoped": {owner, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"web"}}`, "u-1/Node//web"},
		"of another operation": {`{"metadata":{"namespace":"velero","name":"nightly","uid":"u-2"}}`, item,
			"u-2/Deployment.apps/shop/web"},
		"of one without an uid": {`{"metadata":{"namespace":"velero","name":"nightly"}}`, item,
			"velero/nightly/Deployment.apps/shop/web"},
	} {
		key, err := reply.StartKey([]byte(test.owner), []byte(test.item))
		require.NoError(t, err, name)
		require.Equal(t, test.want, key, name)
		require.Empty(t, seen[key], "%s has the key of %s", name, seen[key])
		seen[key] = name
	}
	changed, err := reply.StartKey([]byte(owner),
		[]byte(`{"kind":"Deployment","apiVersion":"apps/v1beta1","metadata":{"namespace":"shop","name":"web"}}`))
	require.NoError(t, err)
	require.Equal(t, "u-1/Deployment.apps/shop/web", changed, "what the item holds, and its API's version, do not count")

	_, err = reply.StartKey([]byte("garbage"), []byte(item))
	require.ErrorContains(t, err, "the running backup or restore is not JSON")
	_, err = reply.StartKey([]byte(owner), nil)
	require.ErrorContains(t, err, "the item sent to the action is empty")
}
