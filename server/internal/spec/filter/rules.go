package filter

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
)

// Rule selects objects of some resources by their labels and names.
type Rule struct {
	// Kinds are kinds or names of resources, as kubectl accepts them. None, or "*", are all that no other rule names.
	Kinds []string
	// Selectors are label selectors, one of which an object must match; none match everything.
	Selectors []labels.Selector
	// Names are the names of objects.
	Names Names
}

// Rest reports whether the rule is for all resources that no other rule names.
func (r Rule) Rest() bool { return len(r.Kinds) == 0 || len(r.Kinds) == 1 && r.Kinds[0] == "*" }

func (r Rule) matches(name string, objectLabels map[string]string) bool {
	return r.Names.Match(name) && (len(r.Selectors) == 0 ||
		slices.ContainsFunc(r.Selectors, func(s labels.Selector) bool { return s.Matches(labels.Set(objectLabels)) }))
}

// NamespaceRules are the rules for some namespaces, given as names or patterns.
type NamespaceRules struct {
	Namespaces []string
	Rules      []Rule
}

// RuleLists are rules as a resource policy has them. In a namespace with rules, only objects that a rule selects are
// selected. Cluster-scoped objects without a rule are selected by other filters.
type RuleLists struct {
	Cluster    []Rule
	Namespaces []NamespaceRules
}

// Empty reports whether there are no rules.
func (l RuleLists) Empty() bool { return len(l.Cluster) == 0 && len(l.Namespaces) == 0 }

// NamespaceNames returns the names and patterns of all namespaces with rules.
func (l RuleLists) NamespaceNames() []string {
	var names []string
	for _, rules := range l.Namespaces {
		names = append(names, rules.Namespaces...)
	}
	return names
}

// Rules select objects by rules for their resource and namespace. The zero value has none.
type Rules struct {
	cluster    *ruleSet
	namespaces map[string]*ruleSet
	patterns   []patternRules // in order; the first that matches counts
}

type patternRules struct {
	pattern list
	rules   *ruleSet
}

// ruleSet are the rules for one scope.
type ruleSet struct {
	byResource map[string]*Rule // by "resource.group", or by a lower-case name that the cluster does not serve
	rest       *Rule
}

// NewRules resolves rules against the resources of a cluster. It returns a warning for each kind that the cluster does
// not serve, or serves in the other scope. Names of resources that are not served yet are compared with the kinds of
// objects.
func NewRules(lists RuleLists, snapshot *discovery.Snapshot) (rules Rules, warnings []string, err error) {
	rules.namespaces = map[string]*ruleSet{}
	if len(lists.Cluster) > 0 {
		if rules.cluster, warnings, err = newRuleSet(lists.Cluster, false, snapshot); err != nil {
			return Rules{}, nil, fmt.Errorf("clusterScopedFilterPolicy: %w", err)
		}
	}
	for i, namespace := range lists.Namespaces {
		set, more, err := newRuleSet(namespace.Rules, true, snapshot)
		if err != nil {
			return Rules{}, nil, fmt.Errorf("namespacedFilterPolicies[%d]: %w", i, err)
		}
		warnings = append(warnings, more...)
		for _, name := range namespace.Namespaces {
			if !IsGlob(name) {
				rules.namespaces[name] = set
				continue
			}
			pattern, err := newList([]string{name})
			if err != nil {
				return Rules{}, nil, fmt.Errorf("namespacedFilterPolicies[%d]: namespace %w", i, err)
			}
			rules.patterns = append(rules.patterns, patternRules{pattern, set})
		}
	}
	slices.Sort(warnings)
	return rules, slices.Compact(warnings), nil
}

func newRuleSet(rules []Rule, namespaced bool, snapshot *discovery.Snapshot) (*ruleSet, []string, error) {
	set := &ruleSet{byResource: map[string]*Rule{}}
	var warnings []string
	for i := range rules {
		rule := &rules[i]
		if rule.Rest() {
			set.rest = rule
			continue
		}
		for _, kind := range rule.Kinds {
			key := strings.ToLower(kind)
			gr, ok := snapshot.Resolve(kind)
			if resource, known := snapshot.ByGroupResource(gr); !ok || !known {
				warnings = append(warnings, fmt.Sprintf("kind %s of a resource filter is not a resource of this cluster", kind))
			} else if key = gr.String(); resource.Namespaced != namespaced {
				other := "clusterScopedFilterPolicy"
				if !namespaced {
					other = "namespacedFilterPolicies"
				}
				warnings = append(warnings, fmt.Sprintf("kind %s of a resource filter matches nothing where it is; it belongs in "+
					"%s", kind, other))
			}
			if set.byResource[key] != nil {
				return nil, nil, fmt.Errorf("kind %s is in two resource filters, want it in one", kind)
			}
			set.byResource[key] = rule
		}
	}
	return set, warnings, nil
}

// of returns the rule for a resource; nil if there is none.
func (s *ruleSet) of(gr schema.GroupResource, kind string) *Rule {
	for _, key := range []string{gr.String(), gr.Resource, strings.ToLower(kind)} {
		if rule := s.byResource[key]; rule != nil {
			return rule
		}
	}
	return s.rest
}

// in returns the rules for the objects of a namespace, or for cluster-scoped ones; nil if there are none.
func (r Rules) in(namespace string) *ruleSet {
	if namespace == "" {
		return r.cluster
	}
	if set := r.namespaces[namespace]; set != nil {
		return set
	}
	for _, p := range r.patterns {
		if p.pattern.match(namespace) {
			return p.rules
		}
	}
	return nil
}

// Any reports whether there are rules at all.
func (r Rules) Any() bool { return r.cluster != nil || len(r.namespaces)+len(r.patterns) > 0 }

// Select reports whether the rules select an object. decided is false if other filters have to decide.
func (r Rules) Select(
	gr schema.GroupResource, kind, namespace, name string, objectLabels map[string]string,
) (selected, decided bool) {
	set := r.in(namespace)
	if set == nil {
		return false, false
	}
	rule := set.of(gr, kind)
	if rule == nil {
		return false, namespace != "" // in a namespace with rules, only the resources that they name are included
	}
	return rule.matches(name, objectLabels), true
}

// AllowsName reports whether the rules allow an object that another object needs. Only names count: to leave out an
// object because of its kind or labels would make the other one useless.
func (r Rules) AllowsName(gr schema.GroupResource, namespace, name string) bool {
	set := r.in(namespace)
	if set == nil {
		return true
	}
	rule := set.of(gr, "")
	return rule == nil || rule.Names.Match(name)
}
