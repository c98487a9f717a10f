// Package jobs holds the built-in action on Jobs. It imports framework only.
package jobs

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/field"
)

// NewRestore returns velero.io/job. It removes the label that ties a pod to its Job from the selector and the template,
// because the API server rejects a Job whose labels contain the uid of another one. The API server sets the label again
// when the Job is created.
func NewRestore(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) {
	return &restore{}, nil
}

type restore struct{}

func (*restore) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"jobs.batch"}}, nil
}

func (a *restore) Execute(ctx context.Context, input *riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
	uids := field.OneOf("batch.kubernetes.io/controller-uid", "controller-uid") // the latter before Kubernetes 1.27
	changed := false
	for _, path := range [][]string{
		{"spec", "selector", "matchLabels"},
		{"spec", "template", "metadata", "labels"},
	} {
		dropped, err := field.Drop(input.Item.Object, uids, path...)
		if err != nil {
			return nil, err
		}
		changed = changed || len(dropped) > 0
	}
	if !changed {
		return nil, nil
	}
	framework.Log(ctx).Debug("a job will select its own pods", "namespace", input.Item.GetNamespace(), "name",
		input.Item.GetName())
	return riav1.NewExecuteOutput(input.Item), nil
}
