package agentpods

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func agentPod(node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "velero", Name: "agent-of-" + node,
			Labels: map[string]string{"role": "node-agent"}},
		Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
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
		why, found := State(test.pods, "velero", test.node)
		require.Equal(t, test.found, found, test.name)
		require.Contains(t, why, test.want, test.name)
		require.Equal(t, test.want == "", why == "", test.name)
	}
}

// TestAgentsThatMoveSnapshots has agents of which any may move the data of a snapshot.
func TestAgentsThatMoveSnapshots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		require.NoError(t, corev1.AddToScheme(scheme))
		veleros, agent := agentPod("n1"), agentPod("n2")
		veleros.Spec.Containers = []corev1.Container{{Args: []string{"node-agent", "server"}}}
		api := fake.NewClientBuilder().WithScheme(scheme).WithObjects().Build()
		var w Watch
		long := func() bool {
			time.Sleep(listAge + time.Second)
			_, long, err := w.Missed(t.Context(), api, "velero", "", "op", false)
			require.NoError(t, err)
			return long
		}
		require.ErrorContains(t, CheckAny(t.Context(), api, "velero"), "namespace velero has no node agents")
		require.NoError(t, api.Create(t.Context(), veleros))
		require.ErrorContains(t, CheckAny(t.Context(), api, "velero"), "namespace velero has node agents of Velero only")
		require.False(t, long())
		time.Sleep(Delay)
		require.True(t, long())

		require.NoError(t, api.Create(t.Context(), agent))
		require.False(t, long())
		agent.Status.Phase = corev1.PodPending
		require.NoError(t, api.Status().Update(t.Context(), agent))
		require.NoError(t, CheckAny(t.Context(), api, "velero"), "it may only be starting again")
		require.False(t, long())
		time.Sleep(Delay)
		require.False(t, long())
		time.Sleep(MovingDelay)
		require.True(t, long(), "it does not start")
		agent.Status.Phase = corev1.PodRunning
		require.NoError(t, api.Status().Update(t.Context(), agent))
		require.False(t, long())
	})
}
