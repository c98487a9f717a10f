package pods

import (
	"context"
	"strings"

	"github.com/cleat-dev/cleat/framework"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/field"
)

// NewRestore makes velero.io/pod: a pod is scheduled anew, gets the priority that its class has in this
// cluster, and loses the token volume that a cluster before Kubernetes 1.21 had put into it, as the Secret of
// that volume is not restored. Its PriorityClass is restored before it.
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

// removeTokenVolume takes away the volumes named "<service account>-token-...", and their mounts.
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

// removeNamed takes the elements whose name has prefix out of a list of object, and the list too when that
// left it empty.
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
