// Package secrets holds the built-in action on Secrets, which is about the tokens of ServiceAccounts. It imports
// framework only; what it has to know of the cluster it is told by a function.
package secrets

import (
	"context"
	"fmt"
	"strings"

	"github.com/cleat-dev/cleat/framework"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/field"
)

// AccountExists says whether the cluster has a ServiceAccount.
type AccountExists func(ctx context.Context, namespace, name string) (bool, error)

// NewRestore makes velero.io/secret. A token that a cluster made for a ServiceAccount on its own, which is named
// "<account>-token-...", is not restored when that account exists where it would go: a cluster of that kind
// makes a new one and removes this. A token Secret that a user made is restored without the token, which no
// other cluster accepts; the cluster fills it in.
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
	namespace := target(input)
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
			framework.Log(ctx).Debug("a token is not restored, its account gets a new one", "namespace", namespace, "name", secret.GetName(), "account", account)
			return riav1.NewExecuteOutput(nil).WithoutRestore(), nil
		}
	}
	if _, err := field.Drop(secret.Object, field.OneOf("kubernetes.io/service-account.uid"), "metadata", "annotations"); err != nil {
		return nil, err
	}
	if _, err := field.Drop(secret.Object, field.OneOf("token", "ca.crt"), "data"); err != nil {
		return nil, err
	}
	framework.Log(ctx).Debug("a token will be filled in by the cluster", "namespace", namespace, "name", secret.GetName())
	return riav1.NewExecuteOutput(secret), nil
}

// target is the namespace that the item is restored to.
func target(input *riav1.ExecuteInput) string {
	from := input.ItemFromBackup.GetNamespace()
	if to, mapped := input.Restore.Spec.NamespaceMapping[from]; mapped {
		return to
	}
	return from
}

// accountsByName is the names of the ServiceAccounts that a token Secret called name may have been made for; mostly
// one. They are asked for by name, so that no list of accounts is needed. When the Secret says whose token it
// holds, no other account counts.
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
