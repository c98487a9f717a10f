package backup

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/discovery"
	"github.com/cleat-dev/cleat/server/filter"
)

var (
	namespacesResource = schema.GroupResource{Resource: "namespaces"}
	podsResource       = schema.GroupResource{Resource: "pods"}
	volumesResource    = schema.GroupResource{Resource: "persistentvolumes"}
	crdsResource       = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
)

// list is one list to read from the API server: the objects of one resource, in one namespace or in
// all ("" ), that match one label selector.
type list struct {
	resource  discovery.Resource
	namespace string
	selector  string
	first     bool // of the resource's lists
}

// plan is the lists of a backup in the order in which their objects are backed up. The namespaces
// themselves are not among them: which of them belong to the backup may depend on the other objects.
func plan(sel *selection) []list {
	var lists []list
	for _, res := range wanted(sel) {
		namespaces := []string{""}
		if res.Namespaced && !together(sel.namespaces) {
			namespaces = sel.namespaces.List()
		}
		first := true
		for _, namespace := range namespaces {
			for _, selector := range sel.queries() {
				lists = append(lists, list{resource: res, namespace: namespace, selector: selector, first: first})
				first = false
			}
		}
	}
	return lists
}

// together says whether one list of all namespaces costs less than one for each included namespace. A request
// costs about as much as some tens of objects, so it does when a good part of the namespaces is
// included; objects of the others are left out as they are read.
func together(namespaces filter.Namespaces) bool {
	if namespaces.All() {
		return true
	}
	included := len(namespaces.List())
	return included > 4 && 4*included >= namespaces.Existing()
}

// wanted are the resources that the filters include, without the namespaces, and with one of those
// that show the same objects under two groups.
func wanted(sel *selection) []discovery.Resource {
	var chosen []discovery.Resource
	for _, res := range sel.snapshot.Resources() {
		if res.GroupResource() == namespacesResource || !sel.resources.Includes(res) {
			continue
		}
		if slices.ContainsFunc(chosen, func(other discovery.Resource) bool { return sameObjects(res, other) }) {
			continue
		}
		chosen = append(chosen, res)
	}
	return chosen
}

// sameObjects says whether two resources are two views of the same objects.
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
