package pods

import (
	"context"
	"strings"

	"github.com/cleat-dev/cleat/framework"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/field"
)

// NewRestore returns velero.io/pod. It removes the node, the priority (its class in this cluster sets it again) and the
// token volume that a cluster before Kubernetes 1.21 added to the pod, because the Secret of that volume is not
// restored. The PriorityClass is restored before the pod.
func NewRestore(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) {
	return &restore{}, nil
}

type restore struct{}

func (*restore) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"pods"}}, nil
}

func (a *restore) Execute(_ context.Context, input *riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
	pod := input.Item.Object
	for _, name := range []string{"nodeName", "priority"} {
		if _, err := field.Remove(pod, "spec", name); err != nil {
			return nil, err
		}
	}
	if err := removeTokenVolume(pod); err != nil {
		return nil, err
	}
	class, err := priorityClass(pod)
	if err != nil {
		return nil, err
	}
	return riav1.NewExecuteOutput(input.Item).WithItems(class...), nil
}

// removeTokenVolume removes the volumes named "<service account>-token-..." and their mounts.
func removeTokenVolume(pod map[string]any) error {
	account, err := field.Text(pod, "spec", "serviceAccountName")
	if err != nil {
		return err
	}
	prefix := account + "-token-"
	spec, err := field.Object(pod, "spec")
	if err != nil {
		return err
	}
	if err := removeNamed(spec, "volumes", prefix); err != nil {
		return err
	}
	for _, kind := range []string{"containers", "initContainers"} {
		containers, err := field.Objects(spec, kind)
		if err != nil {
			return err
		}
		for i, container := range containers {
			if err := removeNamed(container, "volumeMounts", prefix); err != nil {
				return field.In("spec."+kind, i, err)
			}
		}
	}
	return nil
}

// removeNamed removes the elements whose name has the prefix from a list of objects, and the list itself if that leaves
// it empty.
func removeNamed(object map[string]any, list, prefix string) error {
	elements, err := field.Objects(object, list)
	if err != nil {
		return err
	}
	kept := make([]any, 0, len(elements))
	for i, element := range elements {
		name, err := field.Text(element, "name")
		if err != nil {
			return field.In(list, i, err)
		}
		if !strings.HasPrefix(name, prefix) {
			kept = append(kept, element)
		}
	}
	switch len(kept) {
	case len(elements):
	case 0:
		delete(object, list)
	default:
		object[list] = kept
	}
	return nil
}
