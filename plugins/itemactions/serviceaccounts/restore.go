package serviceaccounts

import (
	"context"
	"strings"

	"github.com/cleat-dev/cleat/framework"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/field"
)

// NewRestore returns velero.io/service-account. It removes from a ServiceAccount the reference to the token Secret that
// a cluster before Kubernetes 1.24 created for it, named "<account>-token-...". That Secret is not restored either (see
// package secrets). Such a cluster created one token, so only the last of several matching references is removed.
func NewRestore(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) {
	return &restore{}, nil
}

type restore struct{}

func (*restore) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"serviceaccounts"}}, nil
}

func (a *restore) Execute(ctx context.Context, input *riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
	references, err := field.Objects(input.Item.Object, "secrets")
	if err != nil {
		return nil, err
	}
	prefix := input.Item.GetName() + "-token-"
	token, name := -1, ""
	for i, reference := range references {
		secret, err := field.Text(reference, "name")
		if err != nil {
			return nil, field.In("secrets", i, err)
		}
		if strings.HasPrefix(secret, prefix) {
			token, name = i, secret
		}
	}
	if token < 0 {
		return nil, nil
	}
	kept := make([]any, 0, len(references))
	for i, reference := range references {
		if i != token {
			kept = append(kept, reference)
		}
	}
	input.Item.Object["secrets"] = kept
	if len(kept) == 0 {
		delete(input.Item.Object, "secrets")
	}
	framework.Log(ctx).Debug("a service account gets a new token", "namespace", input.Item.GetNamespace(), "name",
		input.Item.GetName(), "secret", name)
	return riav1.NewExecuteOutput(input.Item), nil
}
