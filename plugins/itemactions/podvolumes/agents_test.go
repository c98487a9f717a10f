package podvolumes

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	abiav1 "github.com/cleat-dev/cleat/framework/asyncbackupitemaction/v1"
)

const operation = "op-0123456789abcdef0123456789abcdef"

func agentPod(node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "agent-of-" + node,
			Labels: map[string]string{"role": "node-agent"}},
		Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

// newBackups returns an action whose backup waits for a load on node n1 and has another one.
func newBackups(t *testing.T) (*backups, client.Client) {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, errors.Join(velerov1.AddToScheme(scheme), corev1.AddToScheme(scheme)))
	load := func(name string, phase velerov1.LoadPhase) *velerov1.PodVolumeBackup {
		b := &velerov1.PodVolumeBackup{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "velero", Name: name, Finalizers: []string{velerov1.PodVolumeFinalizer},
				Labels: map[string]string{velerov1.AsyncOperationIDLabel: operation, velerov1.ExposeOnGoingLabel: "true"},
			},
			Spec: velerov1.PodVolumeBackupSpec{Node: "n1", Volume: name},
		}
		b.Status.Phase = phase
		return b
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		load("data", velerov1.LoadPhaseInProgress), load("cache", velerov1.LoadPhaseCompleted), agentPod("n1"),
		agentPod("n2"),
	).Build()
	deps := Deps{Objects: func() (client.Client, error) { return api, nil },
		Namespace: func() (string, error) { return "velero", nil }}
	return &backups{deps: deps}, api
}

func TestOperationEndsWhenAgentIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, api := newBackups(t)
		progress := func() (done bool, text, err string) {
			p, failed := a.Progress(t.Context(), &abiav1.ProgressInput{Backup: new(velerov1.Backup), OperationID: operation})
			require.NoError(t, failed)
			return p.Completed, p.Description, p.Err
		}
		const why = "no node agent runs on node n1, which moves the data of its volumes; see whether DaemonSet " +
			"velero/node-agent selects the node and tolerates its taints"
		_, text, _ := progress()
		require.Equal(t, "volume data: InProgress", text)

		require.NoError(t, api.Delete(t.Context(), agentPod("n1")))
		time.Sleep(agentDelay)
		_, text, _ = progress()
		require.Equal(t, "volume data: InProgress; "+why, text)
		require.NoError(t, api.Create(t.Context(), agentPod("n1"))) // it was replaced
		time.Sleep(agentDelay)
		_, text, _ = progress()
		require.Equal(t, "volume data: InProgress", text)

		require.NoError(t, api.Delete(t.Context(), agentPod("n1")))
		time.Sleep(agentDelay)
		done, _, _ := progress()
		require.False(t, done, "it may come back, as it did before")
		time.Sleep(agentDelay)
		done, _, _ = progress()
		require.False(t, done, "a pod moves the data of one load")
		time.Sleep(movingDelay)
		done, _, failed := progress()
		require.True(t, done)
		require.Equal(t, "volume data: Failed: "+why, failed)
		var load velerov1.PodVolumeBackup
		require.NoError(t, api.Get(t.Context(), client.ObjectKey{Namespace: "velero", Name: "data"}, &load))
		require.Equal(t, velerov1.LoadPhaseFailed, load.Status.Phase)
		require.Equal(t, why, load.Status.Message)
		require.NotNil(t, load.Status.CompletionTimestamp)
		require.Empty(t, load.Finalizers)
		require.NotContains(t, load.Labels, velerov1.ExposeOnGoingLabel)
	})
}

func TestStateOfAgents(t *testing.T) {
	t.Parallel()
	unready, pending, deleted := agentPod("n1"), agentPod("n1"), agentPod("n1")
	unready.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	pending.Status.Phase = corev1.PodPending
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	for _, test := range []struct {
		name  string
		pods  []corev1.Pod
		node  string
		found bool
		want  string
	}{
		{"none at all", nil, "", false, "namespace velero has no node agents, which move the data of volumes; install"},
		{"none for a node", nil, "n1", false, "install them with cleat install --use-node-agent; the pod runs on node n1"},
		{"any", []corev1.Pod{*agentPod("n2")}, "", true, ""},
		{"at work", []corev1.Pod{*agentPod("n2"), *agentPod("n1")}, "n1", true, ""},
		{"elsewhere", []corev1.Pod{*agentPod("n2")}, "n1", false, "no node agent runs on node n1"},
		{"not ready", []corev1.Pod{*unready}, "n1", true,
			"the node agent of node n1 is not at work: its pod velero/agent-of-n1 is Running and not ready"},
		{"pending", []corev1.Pod{*pending}, "n1", true, "is Pending and not ready"},
		{"deleted", []corev1.Pod{*deleted}, "n1", true, "its pod velero/agent-of-n1 is being deleted"},
		{"replaced", []corev1.Pod{*deleted, *agentPod("n1")}, "n1", true, ""},
	} {
		why, found := state(test.pods, "velero", test.node)
		require.Equal(t, test.found, found, test.name)
		require.Contains(t, why, test.want, test.name)
		require.Equal(t, test.want == "", why == "", test.name)
	}
}
