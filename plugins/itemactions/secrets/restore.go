// Package secrets holds the built-in action on Secrets, which handles the tokens of ServiceAccounts. It imports
// framework only; a function gives it access to the cluster.
package secrets

import (
	"context"
	"fmt"
	"strings"

	"github.com/cleat-dev/cleat/framework"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/field"
)

// AccountExists reports whether the cluster has a ServiceAccount.
type AccountExists func(ctx context.Context, namespace, name string) (bool, error)

// NewRestore returns velero.io/secret. It skips a token that a cluster created for a ServiceAccount on its own, named
// "<account>-token-...", if that account exists in the target namespace: such a cluster creates a new token and removes
// this one. A token Secret that a user created is restored without the token, which no other cluster accepts; the
// cluster adds a new one.
func NewRestore(exists AccountExists) (riav1.RestoreItemAction, error) {
	return &restore{exists: exists}, nil
}

type restore struct {
	exists AccountExists
}

func (*restore) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"secrets"}}, nil
}

func (a *restore) Execute(ctx context.Context, input *riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
	secret := input.Item
	kind, err := field.Text(secret.Object, "type")
	if err != nil || kind != "kubernetes.io/service-account-token" {
		return nil, err
	}
	namespace := input.Restore.Spec.TargetNamespace(input.ItemFromBackup.GetNamespace())
	accounts, err := accountsByName(secret.Object, secret.GetName())
	if err != nil {
		return nil, err
	}
	for _, account := range accounts {
		exists, err := a.exists(ctx, namespace, account)
		if err != nil {
			return nil, framework.WithStack(fmt.Errorf("whether service account %s/%s exists: %w", namespace, account, err))
		}
		if exists {
			framework.Log(ctx).Debug("a token is not restored, its account gets a new one", "namespace", namespace, "name",
				secret.GetName(), "account", account)
			return riav1.NewExecuteOutput(nil).WithoutRestore(), nil
		}
	}
	if _, err := field.Drop(secret.Object, field.OneOf("kubernetes.io/service-account.uid"), "metadata",
		"annotations"); err != nil {
		return nil, err
	}
	if _, err := field.Drop(secret.Object, field.OneOf("token", "ca.crt"), "data"); err != nil {
		return nil, err
	}
	framework.Log(ctx).Debug("a token will be filled in by the cluster", "namespace", namespace, "name", secret.GetName())
	return riav1.NewExecuteOutput(secret), nil
}

// accountsByName returns the names of the ServiceAccounts for which a token Secret called name may have been created;
// usually there is one. Each is looked up by name, so that accounts need not be listed. If the Secret names its
// account, only that account counts.
func accountsByName(secret map[string]any, name string) ([]string, error) {
	const infix = "-token-"
	annotations, err := field.Object(secret, "metadata", "annotations")
	if err != nil {
		return nil, err
	}
	owner, err := field.Text(annotations, "kubernetes.io/service-account.name")
	if err != nil {
		return nil, err
	}
	var accounts []string
	for end := 1; end < len(name); end++ {
		if !strings.HasPrefix(name[end:], infix) {
			continue
		}
		if account := name[:end]; owner == "" || owner == account {
			accounts = append(accounts, account)
		}
	}
	return accounts, nil
}
