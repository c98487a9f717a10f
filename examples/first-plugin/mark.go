package main

import (
	"context"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cleat-dev/cleat/framework"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
)

const (
	// markedBy is the annotation of a marked item in the backup; its value is the name of the backup.
	markedBy = "example.cleat.dev/marked-by"
	// withSecret is an annotation of a ConfigMap that requests the backup of a Secret in the same namespace; its value
	// is the name of the Secret.
	withSecret = "example.cleat.dev/with-secret"
)

// mark adds the name of the backup to each ConfigMap and Deployment. The change is in the backup only, not in the
// cluster.
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
