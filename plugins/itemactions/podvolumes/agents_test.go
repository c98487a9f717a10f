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
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/agentpods"
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
		time.Sleep(agentpods.Delay)
		_, text, _ = progress()
		require.Equal(t, "volume data: InProgress; "+why, text)
		require.NoError(t, api.Create(t.Context(), agentPod("n1"))) // it was replaced
		time.Sleep(agentpods.Delay)
		_, text, _ = progress()
		require.Equal(t, "volume data: InProgress", text)

		require.NoError(t, api.Delete(t.Context(), agentPod("n1")))
		time.Sleep(agentpods.Delay)
		done, _, _ := progress()
		require.False(t, done, "it may come back, as it did before")
		time.Sleep(agentpods.Delay)
		done, _, _ = progress()
		require.False(t, done, "a pod moves the data of one load")
		time.Sleep(agentpods.MovingDelay)
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
