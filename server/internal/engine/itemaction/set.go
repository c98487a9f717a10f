package itemaction

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/internal/spec/filter"
)

// Action has the methods that all kinds of item actions share.
type Action interface {
	Name() string
	AppliesTo(ctx context.Context) (framework.ResourceSelector, error)
}

// Set holds the actions of one run in the order in which they are called. It is safe for concurrent use.
type Set[A Action] struct {
	members  []member[A] // without what they apply to
	resolved atomic.Pointer[[]member[A]]
	roles    operation.Roles
}

type member[A Action] struct {
	action   A
	selector framework.ResourceSelector
	applies  filter.Action
}

// NewSet asks each action for its selector. It returns an error if an action does not reply: its items would be
// processed without it. Actions that need the feature EnableCSI are omitted unless csi is true. Resolve must be called
// before the set is used.
func NewSet[A Action](
	ctx context.Context, actions []A, csi bool, roles operation.Roles, log hclog.Logger,
) (*Set[A], error) {
	set := &Set[A]{roles: roles}
	for _, action := range actions {
		if !csi && roles.Has(action.Name(), framework.RoleCSI) {
			log.Debug("action is not called because the feature EnableCSI is off", "action", action.Name())
			continue
		}
		selector, err := action.AppliesTo(ctx)
		if err != nil {
			return nil, fmt.Errorf("ask what the action applies to: %w", err)
		}
		set.members = append(set.members, member[A]{action: action, selector: selector})
	}
	return set, nil
}

// Resolve resolves the selectors of the actions against the resources that a cluster serves. It may be called again
// when the cluster serves more than before.
func (s *Set[A]) Resolve(snapshot *discovery.Snapshot) (err error) {
	members := slices.Clone(s.members)
	for i := range members {
		m := &members[i]
		if m.applies, err = filter.Resolve(m.selector, snapshot); err != nil {
			return fmt.Errorf("what %s applies to: %w", m.action.Name(), err)
		}
	}
	s.resolved.Store(&members)
	return nil
}

// Any reports whether the set has an action.
func (s *Set[A]) Any() bool { return len(s.members) > 0 }

// Has reports whether an action in the set has a role.
func (s *Set[A]) Has(role framework.Role) bool {
	return slices.ContainsFunc(s.members, func(m member[A]) bool { return s.roles.Has(m.action.Name(), role) })
}

// Each returns the actions that may apply to objects of a resource, in order.
func (s *Set[A]) Each(gr schema.GroupResource) iter.Seq[A] {
	return func(yield func(A) bool) {
		members := *s.resolved.Load()
		for i := range members {
			if m := &members[i]; m.applies.Concerns(gr) && !yield(m.action) {
				return
			}
		}
	}
}

// Concerns reports whether an action may apply to objects of a resource.
func (s *Set[A]) Concerns(gr schema.GroupResource) bool {
	for range s.Each(gr) {
		return true
	}
	return false
}

// For returns the actions that apply to an item, in order. labels is called for each action whose other conditions
// match, because the previous action may have changed the labels of the item.
func (s *Set[A]) For(gr schema.GroupResource, namespace string, labels func() map[string]string) iter.Seq[A] {
	return func(yield func(A) bool) {
		members := *s.resolved.Load()
		for i := range members {
			if m := &members[i]; m.applies.Matches(gr, namespace, labels) && !yield(m.action) {
				return
			}
		}
	}
}
