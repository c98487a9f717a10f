package pods

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cleat-dev/cleat/framework"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
	"github.com/cleat-dev/cleat/framework/podclaims"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/field"
)

// NewBackup returns velero.io/pod. It adds the PersistentVolumeClaims and the PriorityClass of a pod to the backup, so
// that a backup of selected pods can be restored on its own.
func NewBackup(context.Context, *framework.Setup) (biav1.BackupItemAction, error) {
	return &backup{}, nil
}

type backup struct{}

func (*backup) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"pods"}}, nil
}

func (a *backup) Execute(ctx context.Context, input *biav1.ExecuteInput) (*biav1.ExecuteOutput, error) {
	pod := input.Item.Object
	class, err := priorityClass(pod)
	if err != nil {
		return nil, err
	}
	claims, err := claimsOf(input.Item, input.Item.GetNamespace())
	if err != nil {
		return nil, err
	}
	items := slices.Concat(class, claims)
	if len(items) == 0 {
		return nil, nil
	}
	framework.Log(ctx).Debug("a pod brings what it uses", "namespace", input.Item.GetNamespace(), "name",
		input.Item.GetName(), "items", items)
	return biav1.NewExecuteOutput(nil).WithItems(items...), nil
}

// priorityClass returns the PriorityClass of the pod, if it names one.
func priorityClass(pod map[string]any) ([]framework.ResourceIdentifier, error) {
	name, err := field.Text(pod, "spec", "priorityClassName")
	if err != nil || name == "" {
		return nil, err
	}
	return []framework.ResourceIdentifier{{Group: "scheduling.k8s.io", Resource: "priorityclasses", Name: name}}, nil
}

// claimsOf returns the PersistentVolumeClaims of the volumes of a pod, in the given namespace.
func claimsOf(item *unstructured.Unstructured, namespace string) ([]framework.ResourceIdentifier, error) {
	volumes, err := field.Objects(item.Object, "spec", "volumes")
	if err != nil {
		return nil, err
	}
	var claims []framework.ResourceIdentifier
	for i, raw := range volumes {
		var volume corev1.Volume
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &volume); err != nil {
			return nil, framework.Errorf("spec.volumes[%d]: %w", i, err)
		}
		if name := podclaims.Name(item.GetName(), &volume); name != "" {
			claims = append(claims, framework.ResourceIdentifier{Resource: "persistentvolumeclaims", Namespace: namespace,
				Name: name})
		}
	}
	return claims, nil
}
