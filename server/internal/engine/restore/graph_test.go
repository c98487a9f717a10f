package restore

import (
	"iter"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	bucketmanifest "github.com/cleat-dev/cleat/server/internal/bucket/manifest"
	"github.com/cleat-dev/cleat/server/internal/bucket/reference"
)

// graphOf returns the dependencies of the objects of a backup as they name them.
func graphOf(backup *archive.Archive) func(func(archive.Entry) bool) iter.Seq2[*manifest.Item, error] {
	return func(wanted func(archive.Entry) bool) iter.Seq2[*manifest.Item, error] {
		return bucketmanifest.OfArchive(backup, wanted, reference.BuiltIn())
	}
}

// TestWhatAPodNeedsIsRestoredBeforeIt restores a pod with a runtime class, whose resource comes after pods in the default
// priorities: no request is refused.
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
