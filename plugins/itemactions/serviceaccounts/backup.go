package serviceaccounts

import (
	"context"
	"fmt"

	"github.com/cleat-dev/cleat/framework"
	biav1 "github.com/cleat-dev/cleat/framework/backupitemaction/v1"
)

// NewBackup returns velero.io/service-account. It adds the ClusterRoleBindings that name a ServiceAccount, also as a
// user or by the group of its namespace, and their ClusterRoles, to the backup, so that a backup of a namespace has the
// permissions of its workloads. list is called once per backup, with the first ServiceAccount.
func NewBackup(list ListBindings) (biav1.BackupItemAction, error) {
	return &backup{bindings: bindings{list: list}}, nil
}

type backup struct {
	bindings bindings
}

func (*backup) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{"serviceaccounts"}}, nil
}

func (a *backup) Execute(ctx context.Context, input *biav1.ExecuteInput) (*biav1.ExecuteOutput, error) {
	grants, err := a.bindings.of(ctx, input.Backup)
	if err != nil {
		return nil, framework.WithStack(fmt.Errorf("which cluster roles a service account has: %w", err))
	}
	items := grants.of(input.Item.GetNamespace(), input.Item.GetName())
	if len(items) == 0 {
		return nil, nil
	}
	framework.Log(ctx).Debug("a service account brings its cluster roles", "namespace", input.Item.GetNamespace(), "name",
		input.Item.GetName(), "items", items)
	return biav1.NewExecuteOutput(nil).WithItems(items...), nil
}
