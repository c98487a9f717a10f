package nodeagent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/nodeagents"
)

// TestAcceptVolumes_TakeOver takes over a running Velero whose server and node agents are pods, with backups of
// volumes, a schedule, and a load under way, which Velero's agent ends first. cleat restores what Velero has stored,
// backs it up again by the schedule, and Velero, which runs again afterwards, restores and deletes that. The commands
// are those of the guide.
func TestAcceptVolumes_TakeOver(t *testing.T) {
	t.Parallel()
	m, in := newInstallation(t)
	v := m.installVelero(m.namespace, in)
	one := installation{m, m.namespace, false} // Velero's, then cleat's, then Velero's
	shop := newShop(m)
	before := shop.seen(m.shop)
	one.backsUp("first", m.shop)
	first := one.loadsOf("first")
	_, err := v.Run(t.Context(), "schedule", "create", "nightly", "--schedule", "0 1 1 1 *", "--include-namespaces",
		m.shop, "--snapshot-move-data")
	require.NoError(t, err)
	former := m.agentsOf("node-agent")

	one.put(&velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Name: "under-way"}, Spec: velerov1.BackupSpec{
		IncludedNamespaces: []string{m.shop}, SnapshotMoveData: new(true),
	}})
	var loads velerov1.PodVolumeBackupList
	one.await("a load of Velero is under way", &velerov1.Backup{}, "under-way", func() error {
		err := m.client.List(t.Context(), &loads, client.InNamespace(m.namespace),
			client.MatchingLabels{velerov1.BackupNameLabel: "under-way"})
		if err == nil && len(loads.Items) == 0 {
			err = fmt.Errorf("there is none")
		}
		return err
	})
	guide := commandsOf(t, "migrate")
	require.Equal(t, []string{"cleat takeover check", "cleat takeover start"}, guide[:2])
	check, err := m.cleat("takeover", "check")
	require.NoError(t, err, check)
	require.Contains(t, check, "- daemonset node-agent runs Velero's node agents: it is stopped, and daemonset "+
		"cleat-node-agent runs cleat's in their place, with the data movers ghcr.io/cleat-dev/cleat-kopia:")
	require.Contains(t, check,
		"- repository "+m.shop+"-default-kopia (kopia) of namespace "+m.shop+": cleat's node agents")
	require.Contains(t, check, "A take-over of namespace "+m.namespace+" misses nothing.")

	out, err := m.cleat("takeover", "start", "--image", cleatImage, "--node-agent-plugins", moverImage,
		"--privileged-node-agent")
	require.NoError(t, err, out)
	at := 0
	for _, line := range []string{
		"daemonset/cleat-node-agent applied", "deployment/cleat applied", "deployment/velero scaled from 1 to 0",
		"daemonset/node-agent stopped", "lease/cleat-server released",
	} {
		require.Contains(t, out[at:], line)
		at += strings.Index(out[at:], line)
	}
	require.NotContains(t, out, "cancelled", out)
	one.knows("under-way")
	var agents corev1.PodList
	require.NoError(t, m.client.List(t.Context(), &agents, client.InNamespace(m.namespace),
		client.MatchingLabels{nodeagents.RoleLabel: nodeagents.Role}))
	require.Len(t, agents.Items, 1)
	require.Equal(t, cleatImage, agents.Items[0].Spec.Containers[0].Image)

	back := len(guide) - 1
	for _, command := range guide[2:back] {
		out, err := m.cleat(strings.Fields(command)[1:]...)
		require.NoError(t, err, "%s: %s", command, out)
	}
	one.restores("first", m.shop, m.shop+"-first")
	one.sees(before, shop.seen(m.shop+"-first"))
	shop.change()
	after := shop.seen(m.shop)
	out, err = m.cleat("backup", "create", "second", "--from-schedule", "nightly", "--wait")
	require.NoError(t, err, out)
	one.knows("second")
	second := one.loadsOf("second")
	for _, volume := range shop.volumes {
		require.Greater(t, first[volume].total, int64(3<<20), volume)
		require.Less(t, second[volume].fresh, int64(100<<10), volume)
	}
	one.deletes("under-way")

	require.Equal(t, "cleat takeover back", guide[back])
	out, err = m.cleat("takeover", "back")
	require.NoError(t, err, out)
	require.Contains(t, out, "daemonset/cleat-node-agent deleted")
	require.Contains(t, out, "daemonset/node-agent runs again")
	require.Equal(t, former.Spec, m.agentsOf("node-agent").Spec)
	one.restores("second", m.shop, m.shop+"-second")
	one.velero = true
	one.sees(after, shop.seen(m.shop+"-second"))
	one.deletes("second")
}

// commandsOf returns the commands of a page of the documentation.
func commandsOf(t *testing.T, page string) (commands []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", page+".md"))
	require.NoError(t, err)
	inside := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```sh"
		case inside:
			commands = append(commands, line)
		}
	}
	return commands
}

// agentsOf returns a DaemonSet.
func (m *machine) agentsOf(name string) *appsv1.DaemonSet {
	m.t.Helper()
	var d appsv1.DaemonSet
	require.NoError(m.t, m.client.Get(m.t.Context(), client.ObjectKey{Namespace: m.namespace, Name: name}, &d))
	return &d
}

// TestAcceptVolumes_AgentsOfBoth has an agent of Velero on a node with an agent of cleat. cleat accepts no load there,
// its server creates none, and loads of Velero are left to Velero's agent while it is there.
func TestAcceptVolumes_AgentsOfBoth(t *testing.T) {
	t.Parallel()
	f := newFiles(t, 2)
	shop, _ := f.shop()
	velero := agentPodOn(f.namespace, f.nodes[0])
	velero.Name = "veleros"
	velero.Spec.Containers[0].Command, velero.Spec.Containers[0].Args = []string{"/velero"}, []string{"node-agent",
		"server", "--features="}
	f.run(velero, nil)
	f.run(agentPodOn(f.namespace, f.nodes[0]), nil)
	f.agents()
	f.serve()

	load := func(name, node string) *velerov1.PodVolumeBackup {
		b := f.backup(name, node)
		b.Spec.UploaderType = velerov1.RepositoryTypeKopia
		return b
	}
	f.create(load("signed", f.nodes[0]), load("elsewhere", f.nodes[1]))
	require.Contains(t, f.awaitPhase("PodVolumeBackup/signed", velerov1.LoadPhaseFailed).message,
		"refused: pod "+f.namespace+"/veleros on node "+f.nodes[0]+" is a node agent of Velero")
	f.awaitPhase("PodVolumeBackup/elsewhere", velerov1.LoadPhaseCompleted)

	ofVelero := load("of-velero", f.nodes[0])
	ofVelero.Namespace = f.namespace
	require.NoError(t, f.client.Create(t.Context(), ofVelero))
	b := f.backUp("b", velerov1.BackupSpec{IncludedNamespaces: []string{shop}})
	require.Equal(t, velerov1.BackupPhasePartiallyFailed, b.Status.Phase)
	require.Contains(t, f.results("backups", "b"), "veleros on node "+f.nodes[0]+" is a node agent of Velero, which "+
		"would take the volumes from cleat's")
	require.NoError(t, f.client.Get(t.Context(), client.ObjectKeyFromObject(ofVelero), ofVelero))
	require.True(t, ofVelero.Status.Phase.IsNew(), "%s", ofVelero.Status.Phase)
	require.Empty(t, ofVelero.Finalizers)

	require.NoError(t, f.client.Delete(t.Context(), velero, client.GracePeriodSeconds(0)))
	require.Contains(t, f.awaitPhase("PodVolumeBackup/of-velero", velerov1.LoadPhaseFailed).message,
		"refused: it was not created for a backup or restore of this server")
	b = f.backUp("again", velerov1.BackupSpec{IncludedNamespaces: []string{shop}})
	require.Equal(t, velerov1.BackupPhaseCompleted, b.Status.Phase, f.results("backups", "again"))
}
