package hook

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/cleat-dev/cleat/server/internal/spec/filter"
)

// selector determines the pods to which a hook of a spec applies.
type selector struct {
	namespaces filter.Names
	labels     labels.Selector
}

func newSelector(included, excluded []string, byLabel *metav1.LabelSelector) (s selector, err error) {
	if s.namespaces, err = filter.NewNames(included, excluded); err != nil {
		return selector{}, fmt.Errorf("namespaces: %w", err)
	}
	s.labels = labels.Everything()
	if byLabel != nil {
		if s.labels, err = metav1.LabelSelectorAsSelector(byLabel); err != nil {
			return selector{}, fmt.Errorf("labelSelector: %w", err)
		}
	}
	return s, nil
}

func (s selector) matches(namespace string, byLabel map[string]string) bool {
	return s.namespaces.Match(namespace) && s.labels.Matches(labels.Set(byLabel))
}

// container returns the container of a pod in which a hook runs: the named one, or else the first.
func container(pod *corev1.Pod, name string) (string, error) {
	if name == "" && len(pod.Spec.Containers) > 0 {
		return pod.Spec.Containers[0].Name, nil
	}
	var names []string
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Name)
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways { // a sidecar
			names = append(names, c.Name)
		}
	}
	if slices.Contains(names, name) {
		return name, nil
	}
	return "", fmt.Errorf("the pod has no container %q, only %q", name, names)
}
