package discovery

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Snapshot is what an API server served at one moment. It never changes, so it may be shared.
type Snapshot struct {
	resources []Resource
	warnings  []string

	byGroupResource map[schema.GroupResource]int
	byGroupKind     map[schema.GroupKind]int
	byName          map[string][]int // plural, then singular, then short names, in order of preference
}

// NewSnapshot builds a snapshot from the groups and the lists of resources of all their versions, in the
// server's order. Of the versions of a resource it takes the group's preferred one if that has the
// resource, else the first that has it.
//
// The resources are put in the order in which a backup takes them: the server's order of groups, with
// the group "extensions" last, and inside the core group pods, persistent volume claims and
// persistent volumes before the rest.
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

// Resources are all resources that can be backed up, in the order in which a backup takes them.
// The caller must not change them.
func (s *Snapshot) Resources() []Resource { return s.resources }

// Warnings name the API groups that could not be discovered, and why.
func (s *Snapshot) Warnings() []string { return s.warnings }

// Resolve finds the resource that a person means by name: plural, singular or short, in any case,
// alone or with a group behind a dot. The group may be cut short at the end, as kubectl allows it.
// Of several resources of that name the first in the server's order is meant.
func (s *Snapshot) Resolve(name string) (schema.GroupResource, bool) {
	asked := schema.ParseGroupResource(name)
	candidates := s.byName[strings.ToLower(asked.Resource)]
	if len(candidates) == 0 {
		return schema.GroupResource{}, false
	}
	if asked.Group == "" {
		return s.resources[candidates[0]].GroupResource(), true
	}
	for _, fits := range []func(group string) bool{
		func(group string) bool { return group == asked.Group },
		func(group string) bool { return strings.HasPrefix(group, asked.Group) },
	} {
		for _, i := range candidates {
			if fits(s.resources[i].GroupVersion.Group) {
				return s.resources[i].GroupResource(), true
			}
		}
	}
	return schema.GroupResource{}, false
}

// ByGroupResource is the resource of that exact name.
func (s *Snapshot) ByGroupResource(gr schema.GroupResource) (Resource, bool) {
	i, ok := s.byGroupResource[gr]
	if !ok {
		return Resource{}, false
	}
	return s.resources[i], true
}

// ByKind is the resource whose objects are of that kind.
func (s *Snapshot) ByKind(gk schema.GroupKind) (Resource, bool) {
	i, ok := s.byGroupKind[gk]
	if !ok {
		return Resource{}, false
	}
	return s.resources[i], true
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

// preferred picks one version of each resource that a backup can hold.
func preferred(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) []Resource {
	preferredVersion := map[string]string{}
	for _, g := range groups {
		preferredVersion[g.Name] = g.PreferredVersion.Version
	}
	var found []Resource
	at := map[schema.GroupResource]int{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue // no server sends it, and nothing could be asked for under it
		}
		for i := range list.APIResources {
			r := newResource(gv, &list.APIResources[i])
			if strings.Contains(r.Name, "/") || !r.Can("list", "create", "get", "delete") {
				continue
			}
			if have, ok := at[r.GroupResource()]; !ok {
				at[r.GroupResource()] = len(found)
				found = append(found, r)
			} else if gv.Version == preferredVersion[gv.Group] {
				found[have] = r
			}
		}
	}
	return found
}

func newResource(gv schema.GroupVersion, r *metav1.APIResource) Resource {
	// A resource may be listed under one group version and belong to another (rare, but documented).
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

// rank orders resources coarsely; inside a rank the server's order is kept. Pods come first so that
// what belongs to a pod can be backed up together with it.
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
