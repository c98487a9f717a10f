// Package rolebindings holds the built-in actions on RoleBindings and ClusterRoleBindings. It imports framework only.
package rolebindings

import (
	"context"

	"github.com/cleat-dev/cleat/framework"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/field"
)

// NewNamespaced returns velero.io/role-bindings. When a restore maps namespaces, it maps the namespaces of the service
// accounts in a RoleBinding too.
func NewNamespaced(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) {
	return &restore{resource: "rolebindings.rbac.authorization.k8s.io"}, nil
}

// NewCluster returns velero.io/cluster-role-bindings, which does the same for ClusterRoleBindings.
func NewCluster(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) {
	return &restore{resource: "clusterrolebindings.rbac.authorization.k8s.io"}, nil
}

type restore struct {
	resource string
}

func (a *restore) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	return framework.ResourceSelector{IncludedResources: []string{a.resource}}, nil
}

func (a *restore) Execute(ctx context.Context, input *riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
	mapping := input.Restore.Spec.NamespaceMapping
	if len(mapping) == 0 {
		return nil, nil
	}
	subjects, err := field.Objects(input.Item.Object, "subjects")
	if err != nil {
		return nil, err
	}
	changed := false
	for i, subject := range subjects {
		from, err := field.Text(subject, "namespace")
		if err != nil {
			return nil, field.In("subjects", i, err)
		}
		if to, mapped := mapping[from]; mapped && from != "" {
			subject["namespace"] = to
			changed = true
		}
	}
	if !changed {
		return nil, nil
	}
	framework.Log(ctx).Debug("subjects follow their namespaces", "namespace", input.Item.GetNamespace(), "name",
		input.Item.GetName())
	return riav1.NewExecuteOutput(input.Item), nil
}
