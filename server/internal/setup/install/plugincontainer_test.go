package install

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

func TestNamesOfPluginContainersAreVeleros(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]string{
		"velero/velero-plugin-for-aws:v1.0.0":      "velero-velero-plugin-for-aws",
		"plugin":                                   "plugin",
		"plugin:latest":                            "plugin",
		"/plugin:1":                                "plugin",
		"gcr.io/my-repo/my_image.x:v1":             "my-repo-my-image-x",
		"registry:5000/team/sub/mover@sha256:aaaa": "team-sub-mover",
		"registry:5000/team/sub/mover":             "team-sub-mover",
		"registry:5000/team/sub/mover:v1@sha256:a": "team-sub-mover",
		"registry:5000/mover@sha256:aaaa":          "registry-5000-mover",
		"r.io/a/" + strings.Repeat("b", 80) + ":v1@sha256:" + "0123": "a-" + strings.Repeat("b", 55) + "2d2d6a",
	} {
		got := containerName(image, nil)
		require.LessOrEqual(t, len(got), 63)
		if len(got) == 63 {
			require.Equal(t, want[:57], got[:57], image)
			continue
		}
		require.Equal(t, want, got, image)
	}
	taken := []corev1.Container{{Name: "plugin"}}
	require.Regexp(t, "^plugin-[a-z0-9]{5}$", containerName("plugin:v2", taken))
}

func TestPullPolicy(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]corev1.PullPolicy{
		"a": "Always", "a:latest": "Always", "r:5000/a": "Always", "r:5000/a:v1": "IfNotPresent",
		"a@sha256:00": "IfNotPresent",
	} {
		require.Equal(t, want, PullPolicy(image), image)
	}
}

func TestPluginsOfDeployments(t *testing.T) {
	t.Parallel()
	d := &appsv1.Deployment{}
	d.Name = "velero"
	require.ErrorContains(t, AddPlugin(d, "a/b:v1", "Always"), "no container velero")
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "sidecar"}, {Name: "velero"}}
	require.NoError(t, AddPlugin(d, "a/b:v1", "Always"))
	pod := &d.Spec.Template.Spec
	require.Equal(t, []corev1.VolumeMount{{Name: "plugins", MountPath: "/plugins", ReadOnly: true}},
		pod.Containers[1].VolumeMounts)
	require.Equal(t, []corev1.Container{{
		Name: "a-b", Image: "a/b:v1", ImagePullPolicy: "Always", VolumeMounts: []corev1.VolumeMount{
			{Name: "plugins", MountPath: "/target"},
		},
		SecurityContext: pod.InitContainers[0].SecurityContext,
	}}, pod.InitContainers)
	require.True(t, *pod.InitContainers[0].SecurityContext.ReadOnlyRootFilesystem)
	require.ErrorContains(t, AddPlugin(d, "a/b:v1", "Always"), "is there already, as init container a-b")
	require.NoError(t, AddPlugin(d, "a/c:v1", "Always"))
	require.Len(t, pod.Volumes, 1)
	const pinned = "a/d:v1@sha256:aaaa"
	require.NoError(t, AddPlugin(d, pinned, "Always"))
	require.ErrorContains(t, AddPlugin(d, "a/d:v1", "Always"), "is there already, as init container a-d")
	require.ErrorContains(t, AddPlugin(d, "a/b:v1@sha256:aaaa", "Always"), "is there already, as init container a-b")
	removed, err := RemovePlugin(d, "a/d:v1")
	require.NoError(t, err)
	require.Equal(t, pinned, removed)

	_, err = RemovePlugin(d, "x")
	require.EqualError(t, err, "there is no plugin x; the init containers of Deployment velero are a-b, a-c")
	image, err := RemovePlugin(d, "a-c")
	require.NoError(t, err)
	require.Equal(t, "a/c:v1", image)
	_, err = RemovePlugin(d, "a/b:v1")
	require.NoError(t, err)
	_, err = RemovePlugin(d, "a/b:v1")
	require.ErrorContains(t, err, "has no init containers")

	_, err = ServerOf([]appsv1.Deployment{{}})
	require.ErrorContains(t, err, "no Deployment with the label component=velero")
	found, err := ServerOf([]appsv1.Deployment{{}, *d})
	require.NoError(t, err)
	require.Equal(t, "velero", found.Name)
}
