package discovery

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// Snapshot lists the resources that an API server served at one moment. It is immutable.
type Snapshot struct {
	resources []Resource
	warnings  []string

	byGroupResource map[schema.GroupResource]int
	byGroupKind     map[schema.GroupKind]int
	byName          map[string][]int // plural, then singular, then short names, in order of preference
}

// NewSnapshot builds a snapshot from the groups and the resource lists of all their versions, in the server's order. It
// takes each resource in the preferred version of its group, or in the first listed version if the preferred one does
// not have it.
//
// Resources are in the order in which a backup collects them: the server's order of groups, with the group "extensions"
// last, and in the core group pods, persistent volume claims and persistent volumes before the rest.
func NewSnapshot(groups []*metav1.APIGroup, lists []*metav1.APIResourceList, warnings ...string) *Snapshot {
	s := &Snapshot{
		warnings:        slices.Clone(warnings),
		byGroupResource: map[schema.GroupResource]int{},
		byGroupKind:     map[schema.GroupKind]int{},
		byName:          map[string][]int{},
	}
	s.resources = preferred(groups, lists)
	slices.SortStableFunc(s.resources, func(a, b Resource) int { return cmp.Compare(rank(a), rank(b)) })
	s.index()
	return s
}

// With returns the snapshot as it would be if the API server served more resources. Those that it serves already stay
// as they are.
func (s *Snapshot) With(more ...Resource) *Snapshot {
	with := &Snapshot{
		resources: slices.Clone(s.resources), warnings: s.warnings,
		byGroupResource: map[schema.GroupResource]int{}, byGroupKind: map[schema.GroupKind]int{}, byName: map[string][]int{},
	}
	for _, r := range more {
		if _, known := s.ByGroupResource(r.GroupResource()); !known {
			with.resources = append(with.resources, r)
		}
	}
	with.index()
	return with
}

// Resources returns all resources that can be backed up, in the order in which a backup collects them. The caller must
// not modify the slice.
func (s *Snapshot) Resources() []Resource { return s.resources }

// Warnings returns a text for each API group that could not be discovered, with the reason.
func (s *Snapshot) Warnings() []string { return s.warnings }

// Resolve finds a resource by its plural, singular or short name, in upper or lower case, optionally followed by a dot
// and the group or, as in kubectl, a prefix of the group. If several resources match, the first in the server's order
// is returned.
func (s *Snapshot) Resolve(name string) (schema.GroupResource, bool) {
	wanted := schema.ParseGroupResource(name)
	candidates := s.byName[strings.ToLower(wanted.Resource)]
	if len(candidates) == 0 {
		return schema.GroupResource{}, false
	}
	if wanted.Group == "" {
		return s.resources[candidates[0]].GroupResource(), true
	}
	for _, matches := range []func(group string) bool{
		func(group string) bool { return group == wanted.Group },
		func(group string) bool { return strings.HasPrefix(group, wanted.Group) },
	} {
		for _, i := range candidates {
			if matches(s.resources[i].GroupVersion.Group) {
				return s.resources[i].GroupResource(), true
			}
		}
	}
	return schema.GroupResource{}, false
}

// lacks reports whether a name is a resource that the server does not serve. Patterns are no names.
func (s *Snapshot) lacks(name string) bool {
	_, ok := s.Resolve(name)
	return !ok && name != "" && !strings.ContainsAny(name, "*?[")
}

// ByGroupResource finds a resource by its group and plural name.
func (s *Snapshot) ByGroupResource(gr schema.GroupResource) (Resource, bool) {
	i, ok := s.byGroupResource[gr]
	if !ok {
		return Resource{}, false
	}
	return s.resources[i], true
}

// ByKind finds the resource whose objects have the given kind.
func (s *Snapshot) ByKind(gk schema.GroupKind) (Resource, bool) {
	i, ok := s.byGroupKind[gk]
	if !ok {
		return Resource{}, false
	}
	return s.resources[i], true
}

// CheckKind returns an error unless a kind is the kind of a resource, and the scope matches. It accepts resources that
// the API server does not serve.
func (s *Snapshot) CheckKind(gr schema.GroupResource, kind schema.GroupKind, namespaced bool) error {
	served, known := s.ByGroupResource(gr)
	if !known {
		other, taken := s.ByKind(kind)
		if taken {
			return fmt.Errorf("a %q is one of %s, not of %s", kind, other.GroupResource(), gr)
		}
		return nil
	}
	switch {
	case served.GroupVersionKind().GroupKind() != kind:
		return fmt.Errorf("a %q is not one of %s, want a %s", kind, gr, served.Kind)
	case served.Namespaced && !namespaced:
		return fmt.Errorf("%s are in namespaces, want one", gr)
	case namespaced && !served.Namespaced:
		return fmt.Errorf("%s are in no namespace, want none", gr)
	}
	return nil
}

func (s *Snapshot) index() {
	for i, r := range s.resources {
		s.byGroupResource[r.GroupResource()] = i
		if _, taken := s.byGroupKind[r.GroupVersionKind().GroupKind()]; !taken {
			s.byGroupKind[r.GroupVersionKind().GroupKind()] = i
		}
	}
	for _, namesOf := range []func(Resource) []string{
		func(r Resource) []string { return []string{r.Name} },
		func(r Resource) []string { return []string{r.Singular} },
		func(r Resource) []string { return r.ShortNames },
	} {
		for i, r := range s.resources {
			for _, name := range namesOf(r) {
				name = strings.ToLower(name)
				if !slices.Contains(s.byName[name], i) {
					s.byName[name] = append(s.byName[name], i)
				}
			}
		}
	}
}

// preferred returns the resources that a backup can hold, each in one version.
func preferred(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) []Resource {
	preferredVersion := map[string]string{}
	for _, g := range groups {
		preferredVersion[g.Name] = g.PreferredVersion.Version
	}
	var found []Resource
	index := map[schema.GroupResource]int{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue // no server sends this, and nothing could be requested with it
		}
		for i := range list.APIResources {
			r := newResource(gv, &list.APIResources[i])
			if strings.Contains(r.Name, "/") || !r.Can("list", "create", "get", "delete") {
				continue
			}
			if i, ok := index[r.GroupResource()]; !ok {
				index[r.GroupResource()] = len(found)
				found = append(found, r)
			} else if gv.Version == preferredVersion[gv.Group] {
				r.Others = slices.Concat(found[i].Others, []string{found[i].GroupVersion.Version})
				found[i] = r
			} else {
				found[i].Others = append(found[i].Others, r.GroupVersion.Version)
			}
		}
	}
	for i := range found {
		slices.SortFunc(found[i].Others, func(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) })
	}
	return found
}

func newResource(gv schema.GroupVersion, r *metav1.APIResource) Resource {
	// A resource may belong to another group version than the one that lists it.
	if r.Group != "" {
		gv.Group = r.Group
	}
	if r.Version != "" {
		gv.Version = r.Version
	}
	singular := r.SingularName
	if singular == "" {
		singular = strings.ToLower(r.Kind)
	}
	return Resource{
		GroupVersion: gv, Name: r.Name, Singular: singular, Kind: r.Kind,
		ShortNames: r.ShortNames, Namespaced: r.Namespaced, Verbs: r.Verbs,
	}
}

// rank returns the rank of a resource in the order of a backup; resources of one rank keep the server's order. Pods
// come first so that the items that belong to a pod can be backed up together with it.
func rank(r Resource) int {
	switch r.GroupVersion.Group {
	case "":
		switch r.Name {
		case "pods":
			return 0
		case "persistentvolumeclaims":
			return 1
		case "persistentvolumes":
			return 2
		}
		return 3
	case "extensions":
		return 5
	}
	return 4
}
