package nodeagent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// TestAcceptVolumes_PerNodeLimits moves as many loads at once on each node as its rules permit: the lowest matching
// number.
func TestAcceptVolumes_PerNodeLimits(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	s.configure(`{"loadConcurrency": {"globalConfig": 1, "perNodeConfig": [
		{"nodeSelector": {"matchExpressions": [{"key": "number", "operator": "In", "values": ["1", "2"]}]}, "number": 3},
		{"nodeSelector": {"matchLabels": {"number": "1"}}, "number": 2},
		{"nodeSelector": {"matchLabels": {"number": "3"}}, "number": -1}
	]}}`)
	limits := map[string]int{s.nodes[0]: 2, s.nodes[1]: 3, s.nodes[2]: 1}
	for _, node := range s.nodes {
		s.hold(node)
	}
	s.agents()
	const each = 8
	for i := range each {
		for j, node := range s.nodes {
			s.create(s.backup(fmt.Sprintf("b-%d-%d", i, j), node))
		}
	}
	moving := func(o state) (string, bool) {
		return o.node, o.phase == velerov1.LoadPhaseInProgress || o.phase == velerov1.LoadPhaseCanceling
	}
	s.await("all slots are taken", func(last map[string]state) bool {
		count, prepared := map[string]int{}, 0
		for _, o := range last {
			if _, is := moving(o); is {
				count[o.node]++
			}
			if o.phase == velerov1.LoadPhasePrepared {
				prepared++
			}
		}
		return prepared == 3*each-6 && count[s.nodes[0]] == 2 && count[s.nodes[1]] == 3 && count[s.nodes[2]] == 1
	})
	for _, node := range s.nodes {
		s.release(node)
	}
	s.awaitEnd(3 * each)
	require.Equal(t, map[velerov1.LoadPhase]int{velerov1.LoadPhaseCompleted: 3 * each}, s.ends())
	require.Equal(t, limits, s.most(moving))
}

// TestAcceptVolumes_ConfigOfAgents starts agents whose ConfigMap or flags are wrong.
func TestAcceptVolumes_ConfigOfAgents(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	fails := func(want, node string, args ...string) {
		t.Helper()
		a := s.agent(node, args...)
		require.Error(t, a.wait())
		require.Contains(t, a.log.String(), want)
	}
	fails("ConfigMap "+s.namespace+"/missing, see --node-agent-configmap, does not exist", s.nodes[0],
		"--node-agent-configmap", "missing")
	s.configure(`{"loadConcurrency": {"globalConfig": "many"}}`)
	fails("ConfigMap "+s.namespace+"/agents: ", s.nodes[0])
	s.configure(`{"loadConcurrency": {"globalConfig": 2}, "podResources": {"cpuRequest": "1"}, "prepareQueueLength": 2,
		"backupPVC": {"a": {"newer": true, "secretNames": ["s"]}}, "privilegedFsBackup": true}`)
	fails(`node "nowhere" does not exist; name the node of this agent`, "nowhere")
	a := s.agent(s.nodes[0])
	s.create(s.backup("b", s.nodes[0]))
	s.awaitPhase("PodVolumeBackup/b", velerov1.LoadPhaseCompleted)
	for _, warning := range []string{
		"podResources has no effect", "privilegedFsBackup has no effect", "backupPVC.a.newer is unknown and has no effect",
		"prepareQueueLength is at the top level, where it has no effect; write it as loadConcurrency.prepareQueueLength",
	} {
		require.Contains(t, a.log.String(), warning)
	}
	require.Contains(t, a.log.String(), `by=loadConcurrency.globalConfig`)
}

// TestAcceptVolumes_Moves moves the data of volumes of both kinds there and back, and refuses what cannot be moved.
func TestAcceptVolumes_Moves(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	node := s.nodes[0]
	s.agent(node)
	require.NoError(t, os.WriteFile(filepath.Join(s.data(node), "file"), []byte("content"), 0o600))
	b := s.backup("b", node)
	s.create(b)
	s.awaitPhase("PodVolumeBackup/b", velerov1.LoadPhaseCompleted)
	require.NoError(t, s.client.Get(t.Context(), client.ObjectKeyFromObject(b), b))
	require.Equal(t, velerov1.LoadProgress{TotalBytes: 7, BytesDone: 7}, b.Status.Progress)
	require.Equal(t, "copy-"+string(b.UID), b.Status.SnapshotID)
	require.Equal(t, s.data(node), b.Status.Path)
	require.Empty(t, b.Finalizers)
	require.Empty(t, b.Labels)
	var known velerov1.BackupRepository
	require.NoError(t, s.client.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: s.namespace +
		"-default-restic"}, &known))
	require.Equal(t, velerov1.BackupRepositoryPhaseReady, known.Status.Phase)

	r := s.restore("r", node, b.Status.SnapshotID)
	s.create(r)
	s.awaitPhase("PodVolumeRestore/r", velerov1.LoadPhaseCompleted)
	claimed := filepath.Join(s.root, node, string(s.pods[node].UID), "volumes/kubernetes.io~csi/pv-1/mount")
	content, err := os.ReadFile(filepath.Join(claimed, "file"))
	require.NoError(t, err)
	require.Equal(t, "content", string(content))
	require.FileExists(t, filepath.Join(claimed, ".velero", string(s.owner)))

	lost := s.restore("lost", node, "no-such-snapshot")
	kopia := s.backup("kopia", node)
	kopia.Spec.UploaderType = velerov1.RepositoryTypeKopia // the agent has restic alone
	volume := s.backup("volume", node)
	volume.Spec.Volume = "none"
	gone := s.backup("gone", node)
	gone.Spec.Pod.Name, gone.Spec.Pod.UID = "gone", "gone"
	foreign := s.upload("foreign")
	foreign.Spec.DataMover = "velero"
	s.create(lost, kopia, volume, gone, foreign)
	for key, want := range map[string]string{
		"PodVolumeRestore/lost":  "no snapshot no-such-snapshot",
		"PodVolumeBackup/kopia":  "cleat.dev/kopia",
		"PodVolumeBackup/volume": "has no volume none",
		"PodVolumeBackup/gone":   "pod " + s.namespace + "/gone does not exist any more",
	} {
		require.Contains(t, s.awaitPhase(key, velerov1.LoadPhaseFailed).message, want)
	}
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	require.Equal(t, velerov1.LoadPhaseNew, s.history.last["DataUpload/foreign"].phase)
}

// wait waits until the agent has exited.
func (a *agent) wait() error {
	err := <-a.done
	a.done <- err
	return err
}
