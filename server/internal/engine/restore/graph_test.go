package restore

import (
	"iter"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	bucketmanifest "github.com/cleat-dev/cleat/server/internal/bucket/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/reference"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
)

// graphOf returns the dependencies of the objects of a backup as they name them.
func graphOf(backup *archive.Archive) func(func(archive.Entry) bool) iter.Seq2[*manifest.Item, error] {
	return func(wanted func(archive.Entry) bool) iter.Seq2[*manifest.Item, error] {
		return bucketmanifest.OfArchive(backup, wanted, reference.BuiltIn())
	}
}

// TestWhatAPodNeedsIsRestoredBeforeIt restores a pod with a runtime class, whose resource comes after pods in the
// default priorities: no request is refused.
func TestWhatAPodNeedsIsRestoredBeforeIt(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns := unique(t, "needs")
	pod := in("pods", "v1", "Pod", ns, "pod", obj{"spec": obj{"runtimeClassName": ns, "serviceAccountName": "app",
		"containers": []obj{{"name": "c", "image": "i"}}}})
	class := in("runtimeclasses.node.k8s.io", "node.k8s.io/v1", "RuntimeClass", "", ns, obj{"handler": "runc"})
	account := in("serviceaccounts", "v1", "ServiceAccount", ns, "app", nil)
	result := c.mustRestore(pack(t, namespaceThing(ns, nil), pod, class, account), newRestore("r", nil))
	require.Equal(t, 0, result.Results.Errors.Count(), "%+v", result.Results.Errors)
	version := func(one thing) int {
		n, err := strconv.Atoi(dig(c.live(one), "metadata", "resourceVersion").(string))
		require.NoError(t, err)
		return n
	}
	require.Less(t, version(class), version(pod))
}

// TestAcceptGraph_NoBarriers restores into a namespace that is being deleted: what does not need it is restored
// meanwhile, also of resources that come later.
func TestAcceptGraph_NoBarriers(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ns, fine := unique(t, "term"), unique(t, "fine")
	stuck := configMap(ns, "stuck", obj{"metadata": obj{"finalizers": []string{"example.com/keep"}}})
	for _, one := range []thing{namespaceThing(ns, nil), namespaceThing(fine, nil), stuck} {
		c.create(one, "test")
	}
	c.must(http.MethodDelete, pathOf(namespaceThing(ns, nil), true), "", nil)
	later := in("services", "v1", "Service", fine, "later", obj{"spec": obj{"ports": []obj{{"port": 80}}}})
	things := slices.Concat(manyConfigMaps(ns, 3)[1:], []thing{later})
	ended := make(chan *Result, 1)
	go func() { ended <- c.mustRestore(pack(t, things...), newRestore("r", nil)) }()
	require.Eventually(t, func() bool {
		status, _ := c.call(http.MethodGet, pathOf(later, true), "", nil)
		return status == http.StatusOK
	}, 5*time.Minute, 50*time.Millisecond)
	require.Empty(t, ended)
	c.must(http.MethodPatch, pathOf(stuck, true), kubeapi.MergePatch, []byte(`{"metadata":{"finalizers":null}}`))
	result := <-ended
	require.Zero(t, result.Results.Errors.Count(), "%+v", result.Results.Errors)
	require.Len(t, created(result, ""), len(things)+1, "with the namespace")
}
