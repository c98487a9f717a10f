// Package webhooks holds the built-in action on the configurations of admission webhooks. It imports framework only.
package webhooks

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/field"
)

// NewRestore returns velero.io/admission-webhook-configuration. A configuration that was created as v1beta1 can have a
// value of sideEffects that v1 does not allow (Unknown, Some, none at all). The action sets None, so that the
// configuration can be created. Other API versions are not changed.
func NewRestore(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) {
	return &restore{}, nil
}

type restore struct{}

func (*restore) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{
		"mutatingwebhookconfigurations.admissionregistration.k8s.io",
		"validatingwebhookconfigurations.admissionregistration.k8s.io",
	}}, nil
}

func (a *restore) Execute(ctx context.Context, input *riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
	if input.Item.GetAPIVersion() != "admissionregistration.k8s.io/v1" {
		return nil, nil
	}
	hooks, err := field.Objects(input.Item.Object, "webhooks")
	if err != nil {
		return nil, err
	}
	changed := false
	for i, hook := range hooks {
		effects, err := field.Text(hook, "sideEffects")
		if err != nil {
			return nil, field.In("webhooks", i, err)
		}
		if effects == "None" || effects == "NoneOnDryRun" {
			continue
		}
		hook["sideEffects"] = "None"
		changed = true
		framework.Log(ctx).Info("the side effects of a webhook are not allowed in v1, restored as None",
			"kind", input.Item.GetKind(), "name", input.Item.GetName(), "webhook", i, "sideEffects", effects)
	}
	if !changed {
		return nil, nil
	}
	return riav1.NewExecuteOutput(input.Item), nil
}
