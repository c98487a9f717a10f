package nodeagents_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cleat-dev/cleat/framework/nodeagents"
)

func TestAgentsOfVeleroAreKnown(t *testing.T) {
	t.Parallel()
	agent := func(change func(*corev1.Pod)) corev1.Pod {
		pod := corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"name": "node-agent", "role": "node-agent"}},
			Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{
				{Command: []string{"/velero"}, Args: []string{"node-agent", "server", "--features="}},
			}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		}
		change(&pod)
		return pod
	}
	now := metav1.Now()
	for name, tt := range map[string]struct {
		want   bool
		change func(*corev1.Pod)
	}{
		"running":          {true, func(*corev1.Pod) {}},
		"starting":         {true, func(p *corev1.Pod) { p.Status.Phase = "" }},
		"ending":           {true, func(p *corev1.Pod) { p.DeletionTimestamp = &now }},
		"ended":            {false, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }},
		"of cleat":         {false, func(p *corev1.Pod) { p.Labels[nodeagents.CleatLabel] = "true" }},
		"without the role": {false, func(p *corev1.Pod) { delete(p.Labels, "role") }},
		"another program":  {false, func(p *corev1.Pod) { p.Spec.Containers[0].Args = []string{"node-agent"} }},
	} {
		pod := agent(tt.change)
		require.Equal(t, tt.want, nodeagents.IsVelero(&pod), name)
		found := nodeagents.FindVelero([]corev1.Pod{pod}, "n1")
		require.Equal(t, tt.want, found != nil, name)
		require.Equal(t, tt.want, nodeagents.FindVelero([]corev1.Pod{pod}, "") != nil, name)
		require.Nil(t, nodeagents.FindVelero([]corev1.Pod{pod}, "n2"), name)
	}
}
