package install_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// TestAcceptGraph_VeleroArchive restores a backup that Velero has made, which has no manifest: a pod comes after its
// runtime class, which comes after pods in Velero's order, because its object in the archive names it.
func TestAcceptGraph_VeleroArchive(t *testing.T) {
	t.Parallel()
	s, v := newVeleroSite(t)
	server := serveVelero(s, v)
	s.Available()
	ns := s.Put(`{apiVersion: v1, kind: Namespace, metadata: {generateName: order-}}`).GetName()
	labels := fmt.Sprintf("labels: {of: %s}", ns)
	put := func(text string) *unstructured.Unstructured {
		return s.Put(fmt.Sprintf(text, labels, ns))
	}
	class := put(`{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {%s, name: %s}, handler: runc}`)
	put(`{apiVersion: v1, kind: ServiceAccount, metadata: {%s, name: app, namespace: %s}}`)
	pod := s.Put(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {%s, name: app, namespace: %s}, spec: {
		serviceAccountName: app, runtimeClassName: %s, containers: [{name: c, image: i}]}}`, labels, ns, ns))
	require.NoError(t, s.Client.Create(t.Context(), &velerov1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "b"},
		Spec: velerov1.BackupSpec{IncludedNamespaces: []string{ns}, IncludeClusterResources: new(true),
			LabelSelector:   &metav1.LabelSelector{MatchLabels: map[string]string{"of": ns}},
			SnapshotVolumes: new(false)},
	}))
	require.Zero(t, s.AwaitBackup("b", velerov1.BackupPhaseCompleted).Status.Errors)
	server.Kill()
	for _, o := range []client.Object{pod, class} {
		require.NoError(t, s.Client.Delete(t.Context(), o, client.GracePeriodSeconds(0)))
		s.Eventually("it is gone", func(ctx context.Context) (bool, error) {
			err := s.Client.Get(ctx, client.ObjectKeyFromObject(o), o.DeepCopyObject().(client.Object))
			return err != nil && client.IgnoreNotFound(err) == nil, client.IgnoreNotFound(err)
		})
	}
	t.Cleanup(func() { _ = s.Client.Delete(context.Background(), class) })

	cleats := s.Serve("--plugin-dir", v.PluginDir)
	s.Must("restore", "create", "r", "--from-backup", "b")
	restore := s.AwaitEndOfRestore("r")
	require.Equal(t, velerov1.RestorePhaseCompleted, restore.Status.Phase, restore.Status.FailureReason)
	version := func(o *unstructured.Unstructured) int {
		n, err := strconv.Atoi(s.Get(o).GetResourceVersion())
		require.NoError(t, err)
		return n
	}
	require.Less(t, version(class), version(pod))
	require.False(t, strings.Contains(cleats.Log.String(), "asked for again"), "nothing is refused")
}
