package debug

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestPodsLoseTheValuesOfVariablesAndHeaders(t *testing.T) {
	t.Parallel()
	variables := func() []corev1.EnvVar { return []corev1.EnvVar{{Name: "PLAIN", Value: "S3CRET"}} }
	get := func() *corev1.HTTPGetAction {
		return &corev1.HTTPGetAction{Path: "/healthz", HTTPHeaders: []corev1.HTTPHeader{{Name: "X-Any", Value: "S3CRET"}}}
	}
	probe := func() *corev1.Probe { return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: get()}} }
	container := func() corev1.Container {
		return corev1.Container{
			Env: variables(), LivenessProbe: probe(), ReadinessProbe: probe(), StartupProbe: probe(),
			Lifecycle: &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{HTTPGet: get()},
				PreStop: &corev1.LifecycleHandler{HTTPGet: get()}},
		}
	}
	spec := corev1.PodSpec{
		InitContainers: []corev1.Container{container()}, Containers: []corev1.Container{container()},
		EphemeralContainers: []corev1.EphemeralContainer{
			{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Env: variables()}},
		},
	}
	left, err := redactedYAML(spec)
	require.NoError(t, err)
	require.NotContains(t, string(left), "S3CRET")
	require.Equal(t, 3, strings.Count(string(left), "PLAIN"))
	require.Contains(t, string(left), "/healthz")
}
