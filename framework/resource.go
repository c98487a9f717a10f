package framework

import "strings"

// ResourceIdentifier names one object in a cluster or in a backup. The field names are also the JSON
// keys of Velero's item operations file, so they carry no tags.
type ResourceIdentifier struct {
	Group     string // API group, "" for core
	Resource  string // plural resource name, e.g. "persistentvolumeclaims"
	Namespace string // "" for a cluster-scoped object
	Name      string
}

// String renders the identifier as "resource.group/namespace/name", without empty parts.
func (r ResourceIdentifier) String() string {
	parts := []string{r.GroupResource()}
	if r.Namespace != "" {
		parts = append(parts, r.Namespace)
	}
	return strings.Join(append(parts, r.Name), "/")
}

// GroupResource is "resource.group", or "resource" for the core group.
func (r ResourceIdentifier) GroupResource() string {
	if r.Group == "" {
		return r.Resource
	}
	return r.Resource + "." + r.Group
}

// ResourceSelector selects the objects for an action. Empty lists and an empty selector mean everything; "*" is
// accepted as an include. Names may be globs; resources may be plural, singular or short names, with or without group
// (Velero's wire, section AppliesTo).
type ResourceSelector struct {
	IncludedNamespaces []string
	ExcludedNamespaces []string
	IncludedResources  []string
	ExcludedResources  []string
	LabelSelector      string // label selector syntax, e.g. "app=db,tier!=cache"
}
