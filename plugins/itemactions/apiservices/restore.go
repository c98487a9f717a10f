// Package apiservices holds the built-in action on APIServices. It imports framework only.
package apiservices

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
)

// NewRestore returns velero.io/apiservice. It skips APIServices that the API server created itself, for one of its own
// groups or for a CustomResourceDefinition: the API server creates them again.
func NewRestore(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) {
	return &restore{}, nil
}

type restore struct{}

func (*restore) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{
		IncludedResources: []string{"apiservices.apiregistration.k8s.io"},
		LabelSelector:     "kube-aggregator.kubernetes.io/automanaged",
	}, nil
}

func (a *restore) Execute(ctx context.Context, input *riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
	framework.Log(ctx).Debug("the API server makes this one itself", "name", input.Item.GetName())
	return riav1.NewExecuteOutput(nil).WithoutRestore(), nil
}
