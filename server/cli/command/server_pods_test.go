package command

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// TestServerContainer has pods of servers, however they were installed, and others.
func TestServerContainer(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		command, args []string
		is            bool
	}{
		"cleat or Velero": {[]string{"/velero"}, []string{"server", "--x"}, true},
		"only arguments":  {nil, []string{"server"}, true},
		"one command":     {[]string{"/usr/bin/cleat", "server"}, nil, true},
		"a node agent":    {[]string{"/velero"}, []string{"node-agent", "server"}, false},
		"the console":     {[]string{"/velero"}, []string{"console"}, false},
		"nothing":         {nil, nil, false},
		"another program": {[]string{"/minio"}, []string{"server"}, false},
	} {
		spec := &corev1.PodSpec{Containers: []corev1.Container{{Name: "beside"},
			{Name: "velero", Command: row.command, Args: row.args}}}
		got := ServerContainer(spec)
		require.Equal(t, row.is, got != nil, name)
		if row.is {
			require.Equal(t, "velero", got.Name, name)
		}
	}
}

// TestConfigMapOfTheServer finds the ConfigMap of the file that --config names.
func TestConfigMapOfTheServer(t *testing.T) {
	t.Parallel()
	volume := func(name string, items ...corev1.KeyToPath) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "map-" + name}, Items: items}}}
	}
	for name, row := range map[string]struct {
		args   []string
		mounts []corev1.VolumeMount
		volume corev1.Volume
		want   string // "" for none
	}{
		"a directory": {[]string{"server", "--config", "/etc/cleat/cleat.yaml"},
			[]corev1.VolumeMount{{Name: "a", MountPath: "/etc/cleat/"}}, volume("a"), "map-a/cleat.yaml"},
		"a file": {[]string{"--config=/cleat.yaml"},
			[]corev1.VolumeMount{{Name: "a", MountPath: "/cleat.yaml", SubPath: "k"}}, volume("a"), "map-a/k"},
		"another key": {[]string{"--config=/etc/x.yaml"}, []corev1.VolumeMount{{Name: "a", MountPath: "/etc"}},
			volume("a", corev1.KeyToPath{Key: "k", Path: "x.yaml"}), "map-a/k"},
		"the nearest mount": {[]string{"--config=/etc/c/x"}, []corev1.VolumeMount{{Name: "b", MountPath: "/etc"},
			{Name: "a", MountPath: "/etc/c"}}, volume("a"), "map-a/x"},
		"a Secret": {[]string{"--config=/etc/x"}, []corev1.VolumeMount{{Name: "a", MountPath: "/etc"}},
			corev1.Volume{Name: "a", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}}, ""},
		"in the image": {[]string{"--config=/etc/x"}, []corev1.VolumeMount{{Name: "a", MountPath: "/other"}}, volume("a"), ""},
	} {
		container := &corev1.Container{Args: row.args, VolumeMounts: row.mounts}
		spec := &corev1.PodSpec{Volumes: []corev1.Volume{row.volume}}
		of, key, err := configMapAt(spec, container, configPath(row.args))
		if row.want == "" {
			require.ErrorContains(t, err, "which is in no ConfigMap", name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, row.want, of+"/"+key, name)
	}
	require.Empty(t, configPath([]string{"server", "--config"}))
	require.Equal(t, "second", configPath([]string{"--configure", "--config", "second"}))
}
