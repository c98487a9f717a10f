package references

import (
	"context"
	"slices"
	"strings"

	"github.com/cleat-dev/cleat/framework"
	riav1 "github.com/cleat-dev/cleat/framework/restoreitemaction/v1"
)

// NewRoleBindings returns velero.io/role-bindings, which maps the subjects of RoleBindings.
func NewRoleBindings(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) {
	return &restore{bindings("rolebindings.rbac.authorization.k8s.io", "RoleBinding")}, nil
}

// NewClusterRoleBindings returns velero.io/cluster-role-bindings, which does the same for ClusterRoleBindings.
func NewClusterRoleBindings(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) {
	return &restore{bindings("clusterrolebindings.rbac.authorization.k8s.io", "ClusterRoleBinding")}, nil
}

// NewRestore returns cleat.dev/mapped-references, which maps the references of all other kinds of the table.
func NewRestore(context.Context, *framework.Setup) (riav1.RestoreItemAction, error) {
	return &restore{table()}, nil
}

// restore maps references to namespaces, if a restore maps namespaces.
type restore struct{ table []entry }

func (a *restore) AppliesTo(context.Context) (framework.ResourceSelector, error) {
	var resources []string
	for _, e := range a.table {
		resources = append(resources, e.resource)
	}
	slices.Sort(resources)
	return framework.ResourceSelector{IncludedResources: resources}, nil
}

func (a *restore) Execute(ctx context.Context, input *riav1.ExecuteInput) (*riav1.ExecuteOutput, error) {
	mapping := input.Restore.Spec.NamespaceMapping
	if len(mapping) == 0 {
		return nil, nil
	}
	group, _, _ := strings.Cut(input.Item.GetAPIVersion(), "/")
	if group == input.Item.GetAPIVersion() {
		group = "" // "v1"
	}
	var changed []string
	for _, e := range a.table {
		_, of, _ := strings.Cut(e.resource, ".")
		if e.kind != input.Item.GetKind() || of != group {
			continue
		}
		for _, f := range e.fields {
			if apply(mapping, input.Item.Object, strings.Split(f.path, " "), f.form) {
				changed = append(changed, strings.ReplaceAll(f.path, " ", "."))
			}
		}
	}
	if len(changed) == 0 {
		return nil, nil
	}
	framework.Log(ctx).Info("references follow their namespaces", "kind", input.Item.GetKind(), "namespace",
		input.Item.GetNamespace(), "name", input.Item.GetName(), "fields", changed)
	return riav1.NewExecuteOutput(input.Item), nil
}
