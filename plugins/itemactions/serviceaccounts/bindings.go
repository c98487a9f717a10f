package serviceaccounts

import (
	"context"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/perrun"
)

// ListBindings calls visit for each ClusterRoleBinding of the cluster.
type ListBindings func(ctx context.Context, visit func(*rbacv1.ClusterRoleBinding)) error

// account is a ServiceAccount.
type account struct{ namespace, name string }

// grants maps each ServiceAccount with cluster roles to the objects that are backed up with it: bindings, then roles,
// each sorted.
type grants map[account][]framework.ResourceIdentifier

// bindings reads the ClusterRoleBindings once per backup. It is safe for concurrent use.
type bindings struct {
	list ListBindings
	kept perrun.Memo[grants]
}

func (b *bindings) of(ctx context.Context, backup *velerov1.Backup) (grants, error) {
	return b.kept.Get(ctx, backup.Namespace+"/"+backup.Name+"/"+string(backup.UID), b.read)
}

func (b *bindings) read(ctx context.Context) (grants, error) {
	type names = map[string]struct{}
	bound, roles := map[account]names{}, map[account]names{}
	add := func(to map[account]names, who account, name string) {
		if to[who] == nil {
			to[who] = names{}
		}
		to[who][name] = struct{}{}
	}
	err := b.list(ctx, func(binding *rbacv1.ClusterRoleBinding) {
		for _, subject := range binding.Subjects {
			if subject.Kind == rbacv1.ServiceAccountKind {
				who := account{namespace: subject.Namespace, name: subject.Name}
				add(bound, who, binding.Name)
				add(roles, who, binding.RoleRef.Name)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	found := grants{}
	for who, names := range bound {
		for _, name := range slices.Sorted(maps.Keys(names)) {
			found[who] = append(found[who], framework.ResourceIdentifier{Group: rbacv1.GroupName,
				Resource: "clusterrolebindings", Name: name})
		}
		for _, name := range slices.Sorted(maps.Keys(roles[who])) {
			found[who] = append(found[who], framework.ResourceIdentifier{Group: rbacv1.GroupName, Resource: "clusterroles",
				Name: name})
		}
	}
	return found, nil
}
