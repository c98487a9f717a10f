package backup

import (
	"slices"

	"github.com/cleat-dev/cleat/server/internal/engine/backup/pages"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/internal/spec/filter"
)

// plan returns the lists of a backup in the order in which their objects are backed up, each resource in its preferred
// version or in all. The namespaces themselves are not included: which namespaces belong to the backup may depend on
// the other objects.
func plan(sel *selection, allVersions bool) []pages.List {
	var lists []pages.List
	for _, res := range includedResources(sel) {
		lists = append(lists, listsOf(sel, res)...)
		if !allVersions {
			continue
		}
		for _, version := range res.Others {
			lists = append(lists, listsOf(sel, res.In(version))...)
		}
	}
	return lists
}

// listsOf returns the lists of one resource in one version.
func listsOf(sel *selection, res discovery.Resource) []pages.List {
	namespaces := []string{""}
	if res.Namespaced && !listTogether(sel.namespaces) {
		namespaces = sel.namespaces.List()
	}
	var lists []pages.List
	first := !res.NotPreferred
	for _, namespace := range namespaces {
		for _, selector := range sel.queries() {
			lists = append(lists, pages.List{Resource: res, Namespace: namespace, Selector: selector, First: first})
			first = false
		}
	}
	return lists
}

// listTogether reports whether one list of all namespaces costs less than one for each included namespace. A request
// costs about as much as some tens of objects, so it does if at least a quarter of the namespaces is included. Objects
// of other namespaces are dropped while they are read.
func listTogether(namespaces filter.Namespaces) bool {
	if namespaces.All() {
		return true
	}
	included := len(namespaces.List())
	return included > 4 && 4*included >= namespaces.Existing()
}

// includedResources returns the resources that the filters include, without the namespaces. If two resources serve the
// same objects under two groups, it returns one of them.
func includedResources(sel *selection) []discovery.Resource {
	var included []discovery.Resource
	for _, res := range sel.snapshot.Resources() {
		if res.GroupResource() == namespacesResource || !sel.resources.Includes(res) {
			continue
		}
		if slices.ContainsFunc(included, func(other discovery.Resource) bool { return sameObjects(res, other) }) {
			continue
		}
		included = append(included, res)
	}
	return included
}

// sameObjects reports whether two resources serve the same objects.
func sameObjects(a, b discovery.Resource) bool {
	if a.Name != b.Name {
		return false
	}
	var groups []string
	switch a.Name {
	case "deployments", "daemonsets", "replicasets":
		groups = []string{"extensions", "apps"}
	case "networkpolicies":
		groups = []string{"extensions", "networking.k8s.io"}
	case "events":
		groups = []string{"", "events.k8s.io"}
	}
	return slices.Contains(groups, a.GroupVersion.Group) && slices.Contains(groups, b.GroupVersion.Group)
}
