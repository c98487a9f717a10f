package pods

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
)

// NewAddClaims returns velero.io/add-pvc-from-pod. It restores the PersistentVolumeClaims of a pod before the pod, even
// if the restore's filters exclude them.
func NewAddClaims(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) {
	return &addClaims{}, nil
}

type addClaims struct{}

func (*addClaims) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"pods"}}, nil
}

func (a *addClaims) Execute(ctx context.Context, input *riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
	// Additional items are looked up in the backup, so the namespace in the backup counts, whatever the target
	// namespace is.
	namespace := input.ItemFromBackup.GetNamespace()
	claims, err := claimsOf(input.Item, namespace)
	if err != nil || len(claims) == 0 {
		return nil, err
	}
	framework.Log(ctx).Debug("a pod brings its claims", "namespace", namespace, "name", input.Item.GetName(), "items",
		claims)
	return riav1.NewExecuteOutput(nil).WithItems(claims...), nil
}
