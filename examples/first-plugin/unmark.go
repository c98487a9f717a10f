package main

import (
	"context"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
)

// unmark removes the mark, so that a restored item equals the original.
type unmark struct {
	log hclog.Logger
}

func newUnmark(_ context.Context, setup *framework.Setup) (riav1.RestoreItemAction, error) {
	log := setup.Logger()
	return &unmark{log: log}, nil
}

// AppliesTo implements riav1.RestoreItemAction.
func (u *unmark) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"configmaps", "deployments.apps"}}, nil
}

// Execute implements riav1.RestoreItemAction.
func (u *unmark) Execute(_ context.Context, input *riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
	item := input.Item
	annotations, _, err := unstructured.NestedStringMap(item.Object, "metadata", "annotations")
	if err != nil {
		return nil, framework.Errorf("unmark: %w", err)
	}
	backup, marked := annotations[markedBy]
	if !marked {
		return nil, nil // no changes: the item is restored unchanged
	}
	delete(annotations, markedBy)
	item.SetAnnotations(annotations)
	if len(annotations) == 0 {
		unstructured.RemoveNestedField(item.Object, "metadata", "annotations") // mark added the first annotation
	}
	u.log.Debug("unmarked", "backup", backup, "kind", item.GetKind(), "namespace", item.GetNamespace(), "name",
		item.GetName())
	return riav1.NewExecuteOutput(item), nil
}
