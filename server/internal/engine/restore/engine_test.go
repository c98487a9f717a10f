package restore

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
)

func TestRestoreCreatesDeletedObjects(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns := unique(t, "r")
	space := namespaceThing(ns, obj{"metadata": obj{"labels": obj{"team": "a"}, "annotations": obj{"note": "x"}}})
	one := configMap(ns, "one", obj{"data": obj{"a": "1"}, "metadata": obj{"finalizers": []string{"example.com/keep"}}})
	two := in("secrets", "v1", "Secret", ns, "two", obj{"stringData": obj{"p": "q"}})
	c.create(space, "kubectl-create")
	c.create(one, "kubectl-create")
	c.create(two, "helm")
	space, one, two = c.asThing(space), c.asThing(one), c.asThing(two)
	c.must(http.MethodPatch, pathOf(one, true), kubeapi.MergePatch, []byte(`{"metadata":{"finalizers":null}}`))
	c.remove(space)

	result := c.mustRestore(pack(t, space, one, two), newRestore("r1", nil))
	require.Zero(t, result.Results.Errors.Count(), "%+v", result.Results)
	require.Zero(t, result.Results.Warnings.Count(), "%+v", result.Results)
	require.Equal(t, map[string][]string{
		"v1/Namespace": {ns + "(created)"},
		"v1/ConfigMap": {ns + "/one(created)"},
		"v1/Secret":    {ns + "/two(created)"},
	}, lists(result))
	require.Equal(t, "a", dig(c.live(space), "metadata", "labels", "team"))
	require.Equal(t, "x", dig(c.live(space), "metadata", "annotations", "note"))
	got := c.live(one)
	require.Equal(t, obj{"a": "1"}, got["data"])
	require.Equal(t, []any{"example.com/keep"}, dig(got, "metadata", "finalizers"))
	require.Equal(t, obj{"velero.io/backup-name": "b", "velero.io/restore-name": "r1"}, dig(got, "metadata", "labels"))
	require.Equal(t, "cQ==", dig(c.live(two), "data", "p"))

	again := c.mustRestore(pack(t, space, one, two), newRestore("r2", nil))
	require.Zero(t, again.Results.Errors.Count()+again.Results.Warnings.Count(), "%+v", again.Results)
	require.Equal(t, []string{ns + "/one(skipped)"}, entries(again, "v1/ConfigMap"))
}
