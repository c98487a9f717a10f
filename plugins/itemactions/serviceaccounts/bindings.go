package serviceaccounts

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// ListBindings calls visit for each ClusterRoleBinding of the cluster.
type ListBindings func(ctx context.Context, visit func(*rbacv1.ClusterRoleBinding)) error

// account is a ServiceAccount.
type account struct{ namespace, name string }

// grants maps each ServiceAccount with cluster roles to what is backed up with it: bindings, then roles, each sorted.
type grants map[account][]framework.ResourceIdentifier

// keptGrants is the number of backups whose grants are kept: as many as are likely to run at once.
const keptGrants = 8

// bindings reads the ClusterRoleBindings once per backup. It is safe for concurrent use.
type bindings struct {
	list ListBindings

	mu   sync.Mutex
	kept []*reading // oldest first
}

// reading is one read of the bindings, for one backup.
type reading struct {
	backup string
	done   chan struct{} // closed when the other fields are set
	grants grants
	err    error
}

// of returns the grants for backup. If reading them fails, the next call tries again.
func (b *bindings) of(ctx context.Context, backup *velerov1.Backup) (grants, error) {
	key := backup.Namespace + "/" + backup.Name + "/" + string(backup.UID)
	for {
		r, owns := b.join(key)
		if owns {
			b.fill(ctx, r)
			return r.grants, r.err
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if r.err == nil {
			return r.grants, nil
		}
	}
}

// join returns the reading of a backup. If there is none, it adds one that the caller must fill.
func (b *bindings) join(backup string) (r *reading, owns bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.IndexFunc(b.kept, func(r *reading) bool { return r.backup == backup }); i >= 0 {
		return b.kept[i], false
	}
	r = &reading{backup: backup, done: make(chan struct{})}
	b.kept = append(b.kept, r)
	if len(b.kept) > keptGrants {
		b.kept = slices.Delete(b.kept, 0, 1)
	}
	return r, true
}

// fill sets the result of r, even if reading panics.
func (b *bindings) fill(ctx context.Context, r *reading) {
	r.err = errors.New("reading the cluster role bindings was broken off")
	defer b.finish(r)
	r.grants, r.err = b.read(ctx)
}

func (b *bindings) finish(r *reading) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.err != nil {
		b.kept = slices.DeleteFunc(b.kept, func(kept *reading) bool { return kept == r })
	}
	close(r.done)
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
			found[who] = append(found[who], framework.ResourceIdentifier{Group: rbacv1.GroupName, Resource: "clusterrolebindings", Name: name})
		}
		for _, name := range slices.Sorted(maps.Keys(roles[who])) {
			found[who] = append(found[who], framework.ResourceIdentifier{Group: rbacv1.GroupName, Resource: "clusterroles", Name: name})
		}
	}
	return found, nil
}
