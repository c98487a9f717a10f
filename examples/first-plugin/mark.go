package main

import (
	"context"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
)

const (
	// markedBy is the annotation that a marked item has in the backup; its value is the backup's name.
	markedBy = "example.cleat.dev/marked-by"
	// withSecret is an annotation by which the owner of a ConfigMap asks for a Secret of the same namespace
	// to be backed up too; its value is the Secret's name.
	withSecret = "example.cleat.dev/with-secret"
)

// mark notes in each ConfigMap and Deployment that is backed up by which backup that was. What it writes is
// in the backup only, the cluster does not see it.
type mark struct {
	log hclog.Logger
}

func newMark(_ context.Context, setup *framework.Setup) (biav1.BackupItemAction, error) {
	log := setup.Logger()
	return &mark{log: log}, nil
}

// AppliesTo implements biav1.BackupItemAction.
func (m *mark) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"configmaps", "deployments.apps"}}, nil
}

// Execute implements biav1.BackupItemAction.
func (m *mark) Execute(_ context.Context, input *biav1.ExecuteInput) (*biav1.ExecuteOutput, error) {
	item := input.Item
	annotations, _, err := unstructured.NestedStringMap(item.Object, "metadata", "annotations")
	if err != nil {
		return nil, framework.Errorf("mark: %w", err)
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[markedBy] = input.Backup.Name
	item.SetAnnotations(annotations)
	m.log.Info("marked for backup", "kind", item.GetKind(), "namespace", item.GetNamespace(), "name", item.GetName())

	output := biav1.NewExecuteOutput(item)
	if secret := annotations[withSecret]; secret != "" && item.GetKind() == "ConfigMap" {
		output.WithItems(framework.ResourceIdentifier{
			Resource: "secrets", Namespace: item.GetNamespace(), Name: secret,
		})
	}
	return output, nil
}
