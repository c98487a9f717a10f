package serviceaccounts

import (
	"context"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/plugins/itemactions/internal/perrun"
)

// ListBindings calls visit for each ClusterRoleBinding of the cluster.
type ListBindings func(ctx context.Context, visit func(*rbacv1.ClusterRoleBinding)) error

// account is a ServiceAccount, or all those of a namespace if the name is empty.
type account struct{ namespace, name string }

// accountOf returns whom a subject of a binding stands for. ok is false if that is not one namespace's account or group.
func accountOf(subject rbacv1.Subject) (who account, ok bool) {
	switch subject.Kind {
	case rbacv1.ServiceAccountKind:
		return account{subject.Namespace, subject.Name}, true
	case rbacv1.UserKind:
		name, is := strings.CutPrefix(subject.Name, "system:serviceaccount:")
		namespace, name, _ := strings.Cut(name, ":")
		return account{namespace, name}, is && name != ""
	case rbacv1.GroupKind:
		namespace, is := strings.CutPrefix(subject.Name, "system:serviceaccounts:")
		return account{namespace: namespace}, is
	}
	return account{}, false
}

// grants has the names of the ClusterRoleBindings of accounts, and of their ClusterRoles.
type grants struct{ bound, roles map[account]names }

type names = map[string]struct{}

// of returns the objects that are backed up with a ServiceAccount: bindings, then roles, each sorted.
func (g grants) of(namespace, name string) []framework.ResourceIdentifier {
	var items []framework.ResourceIdentifier
	for _, kind := range []struct {
		resource string
		of       map[account]names
	}{{"clusterrolebindings", g.bound}, {"clusterroles", g.roles}} {
		all := names{}
		maps.Copy(all, kind.of[account{namespace, name}])
		maps.Copy(all, kind.of[account{namespace: namespace}])
		for _, name := range slices.Sorted(maps.Keys(all)) {
			items = append(items, framework.ResourceIdentifier{Group: rbacv1.GroupName, Resource: kind.resource, Name: name})
		}
	}
	return items
}

// bindings reads the ClusterRoleBindings once per backup. It is safe for concurrent use.
type bindings struct {
	list ListBindings
	kept perrun.Memo[grants]
}

func (b *bindings) of(ctx context.Context, backup *velerov1.Backup) (grants, error) {
	return b.kept.Get(ctx, backup.Namespace+"/"+backup.Name+"/"+string(backup.UID), b.read)
}

func (b *bindings) read(ctx context.Context) (grants, error) {
	found := grants{bound: map[account]names{}, roles: map[account]names{}}
	add := func(to map[account]names, who account, name string) {
		if to[who] == nil {
			to[who] = names{}
		}
		to[who][name] = struct{}{}
	}
	err := b.list(ctx, func(binding *rbacv1.ClusterRoleBinding) {
		for _, subject := range binding.Subjects {
			if who, ok := accountOf(subject); ok {
				add(found.bound, who, binding.Name)
				add(found.roles, who, binding.RoleRef.Name)
			}
		}
	})
	return found, err
}
