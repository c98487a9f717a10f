package nodeagent_test

import (
	"os/exec"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/test/programs"
)

// TestAcceptVolumes_NoAgent moves the data of snapshots while no node agent can do that: there is none, the agents do not
// have the data mover, or the volume is exposed on a node without an agent. Each claim fails with the reason. An agent
// that only starts again is waited for.
func TestAcceptVolumes_NoAgent(t *testing.T) {
	t.Parallel()
	v := newVolumeSite(t, 2)
	v.useKopia()
	v.claim("files", corev1.PersistentVolumeFilesystem)
	v.claim("more", corev1.PersistentVolumeFilesystem)
	v.serve()
	fails := func(name string, change func(*velerov1.Backup), whys ...string) {
		b := v.moving(name)
		change(b)
		require.NoError(t, v.client.Create(t.Context(), b))
		found := v.ended(b, func() string { return string(b.Status.Phase) }, "backups/"+name+"/"+name+"-results.gz")
		require.Equal(t, velerov1.BackupPhasePartiallyFailed, b.Status.Phase)
		require.Equal(t, 2, b.Status.Errors, found)
		for _, why := range whys {
			require.Contains(t, found, why)
		}
		v.leavesNothing(v.shop, "files")
		v.leavesNothing(v.shop, "more")
	}
	same := func(*velerov1.Backup) {}
	none := "has no node agents, which move the data of volumes; install them with cleat install --use-node-agent"
	fails("none", same, "files", "more", none)
	var uploads velerov2alpha1.DataUploadList
	require.NoError(t, v.client.List(t.Context(), &uploads, client.InNamespace(v.namespace)))
	require.Empty(t, uploads.Items, "no snapshot is taken in vain")
	var taken snapshotv1.VolumeSnapshotList
	require.NoError(t, v.client.List(t.Context(), &taken, client.InNamespace(v.shop)))
	require.Empty(t, taken.Items)
	for _, args := range [][]string{{"overview"}, {"backup", "describe", "none"}} {
		out, err := exec.CommandContext(t.Context(), programs.Build(t, "server/cmd/cleat"), append(args, "--kubeconfig",
			shared.Get(t).Kubeconfig, "--namespace", v.namespace)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), none, "%s", args)
	}

	agent := v.agentPod(v.nodes[0]) // which starts again
	agent.Status.Phase = corev1.PodPending
	require.NoError(t, v.client.Status().Update(t.Context(), agent))
	b := v.moving("soon")
	require.NoError(t, v.client.Create(t.Context(), b))
	v.eventually("the data waits to be moved", func() (bool, error) {
		err := v.client.List(t.Context(), &uploads, client.InNamespace(v.namespace))
		return len(uploads.Items) == 2, err
	})
	agent.Status.Phase = corev1.PodRunning
	require.NoError(t, v.client.Status().Update(t.Context(), agent))
	other := v.agentPod(v.nodes[1])
	v.agent(v.nodes[0], "--pod-name", agent.Name)
	second := v.agent(v.nodes[1], "--pod-name", other.Name)
	found := v.ended(b, func() string { return string(b.Status.Phase) }, "backups/soon/soon-results.gz")
	require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, found)

	fails("of-restic", func(b *velerov1.Backup) { b.Spec.DataMover = velerov1.ResticDataMover }, "cleat.dev/restic")
	second.kill()
	require.NoError(t, v.client.Delete(t.Context(), other, client.GracePeriodSeconds(0))) // no kubelet ends it
	fails("elsewhere", same, "runs on node "+v.nodes[1]+", where no node agent runs")
}
