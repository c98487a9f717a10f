package command

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

// ServerPods returns the pods of the namespace that run the server, the newest first.
func (s *Cluster) ServerPods(ctx context.Context) ([]corev1.Pod, error) {
	var list corev1.PodList
	if err := s.WithWatch.List(ctx, &list, client.InNamespace(s.Namespace)); err != nil {
		return nil, err
	}
	pods := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return ServerContainer(&p.Spec) == nil })
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return pods, nil
}

// ServerContainer returns the container of a pod that runs the server, however it was installed; nil if there is none.
func ServerContainer(spec *corev1.PodSpec) *corev1.Container {
	for i := range spec.Containers {
		line := slices.Concat(spec.Containers[i].Command, spec.Containers[i].Args)
		if len(line) > 0 && slices.Contains([]string{"velero", "cleat"}, path.Base(line[0])) {
			line = line[1:]
		}
		if len(line) > 0 && line[0] == "server" {
			return &spec.Containers[i]
		}
	}
	return nil
}

// ServerConfig returns the configuration file of the server in its pod, and where it is from. It is read from its
// ConfigMap with the rights of whoever asks. A server without such a file has an empty one. The text of an error is a
// sentence for people.
func (s *Cluster) ServerConfig(ctx context.Context) (file *config.File, from string, err error) {
	pods, err := s.ServerPods(ctx)
	switch {
	case apierrors.IsForbidden(err):
		return nil, "", fmt.Errorf("you may not list pods in namespace %s, which say where the server is configured",
			s.Namespace)
	case err != nil:
		return nil, "", fmt.Errorf("look for the pod of the server: %w", err)
	case len(pods) == 0:
		return nil, "", fmt.Errorf("no pod in namespace %s runs the server: its configuration is where it runs", s.Namespace)
	}
	container := ServerContainer(&pods[0].Spec)
	at := configPath(container.Args)
	if at == "" {
		return &config.File{}, "the server has no configuration file", nil
	}
	name, key, err := configMapAt(&pods[0].Spec, container, at)
	if err != nil {
		return nil, "", err
	}
	var object corev1.ConfigMap
	err = s.Get(ctx, s.Key(name), &object)
	switch {
	case apierrors.IsForbidden(err):
		return nil, "", fmt.Errorf("you may not get ConfigMap %s in namespace %s, which has the configuration of the server",
			name, s.Namespace)
	case err != nil:
		return nil, "", fmt.Errorf("read the configuration of the server: %w", err)
	}
	text, found := object.Data[key]
	if !found {
		return nil, "", fmt.Errorf("ConfigMap %s has no key %s, the configuration of the server", name, key)
	}
	from = fmt.Sprintf("key %s of ConfigMap %s", key, name)
	if file, err = config.Parse(key, []byte(text)); err != nil {
		return nil, "", fmt.Errorf("%s: %w", from, err)
	}
	return file, from, nil
}

// configPath returns the value of --config among the arguments of a server, "" if there is none.
func configPath(args []string) string {
	for i, arg := range args {
		if value, found := strings.CutPrefix(arg, "--config="); found {
			return value
		}
		if arg == "--config" && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}

// configMapAt returns the ConfigMap and its key that a container has as the file at a path.
func configMapAt(spec *corev1.PodSpec, container *corev1.Container, at string) (name, key string, err error) {
	at = path.Clean(at)
	elsewhere := fmt.Errorf("the configuration of the server is its file %s, which is in no ConfigMap", at)
	mounts := slices.Clone(container.VolumeMounts)
	slices.SortFunc(mounts, func(a, b corev1.VolumeMount) int { return len(b.MountPath) - len(a.MountPath) })
	for _, mount := range mounts {
		below, err := filepath.Rel(mount.MountPath, at)
		if err != nil || strings.HasPrefix(below, "..") {
			continue
		}
		if mount.SubPath != "" {
			below = path.Join(mount.SubPath, below)
		}
		i := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		if i < 0 || spec.Volumes[i].ConfigMap == nil {
			return "", "", elsewhere
		}
		for _, item := range spec.Volumes[i].ConfigMap.Items {
			if item.Path == below {
				return spec.Volumes[i].ConfigMap.Name, item.Key, nil
			}
		}
		return spec.Volumes[i].ConfigMap.Name, below, nil
	}
	return "", "", elsewhere
}
