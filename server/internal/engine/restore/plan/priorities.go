package plan

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
)

// Priorities is the order in which resources are restored: the resources of High in their order, then the resources in
// neither list by their names, then the resources of Low in their order. Names may have any form that discovery
// resolves. Custom resource definitions always come first.
type Priorities struct {
	High []string
	Low  []string
}

// lowSeparator separates the two lists in the text form.
const lowSeparator = "-"

// DefaultPriorities returns the order of Velero: an object comes before the objects that refer to it, volumes before
// claims before pods, pods before the controllers that would create them, controllers of whole clusters last.
func DefaultPriorities() Priorities {
	return Priorities{
		High: []string{
			"customresourcedefinitions",
			"namespaces",
			"storageclasses",
			"volumesnapshotclass.snapshot.storage.k8s.io",
			"volumesnapshotcontents.snapshot.storage.k8s.io",
			"volumesnapshots.snapshot.storage.k8s.io",
			"datauploads.velero.io",
			"persistentvolumes",
			"persistentvolumeclaims",
			"clusterroles",
			"roles",
			"serviceaccounts",
			"clusterrolebindings",
			"rolebindings",
			"secrets",
			"configmaps",
			"limitranges",
			"priorityclasses",
			"pods",
			"replicasets.apps",
			"clusterclasses.cluster.x-k8s.io",
			"endpoints",
			"services",
		},
		Low: []string{
			"clusterbootstraps.run.tanzu.vmware.com",
			"clusters.cluster.x-k8s.io",
			"clusterresourcesets.addons.cluster.x-k8s.io",
			"apps.kappctrl.k14s.io",
			"packageinstalls.packaging.carvel.dev",
		},
	}
}

// ParsePriorities parses "high1,high2,-,low1,low2". Without "-" all names are high. The empty text has no priorities.
// White space around names is ignored.
func ParsePriorities(text string) (Priorities, error) {
	var p Priorities
	if strings.TrimSpace(text) == "" {
		return p, nil
	}
	list := &p.High
	seen := map[string]bool{}
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		switch {
		case name == "":
			return Priorities{}, fmt.Errorf(`resource priorities %q: empty name, want "high1,high2,-,low1"`, text)
		case name == lowSeparator && list == &p.Low:
			return Priorities{}, fmt.Errorf(`resource priorities %q: more than one %q, want "high1,high2,-,low1"`, text,
				lowSeparator)
		case name == lowSeparator:
			list = &p.Low
		case seen[name]:
			return Priorities{}, fmt.Errorf("resource priorities %q: %s is named twice, want each resource once", text, name)
		default:
			seen[name] = true
			*list = append(*list, name)
		}
	}
	return p, nil
}

// Order returns the resources of an archive, which are sorted by name, in the order of their restore. If a resource is
// named twice, or in both lists, its first position counts.
func (p Priorities) Order(present []schema.GroupResource, snapshot *discovery.Snapshot) []schema.GroupResource {
	left := make(map[schema.GroupResource]bool, len(present))
	for _, gr := range present {
		left[gr] = true
	}
	take := func(names []string) []schema.GroupResource {
		var taken []schema.GroupResource
		for _, name := range names {
			gr, ok := snapshot.Resolve(name)
			if !ok || !left[gr] {
				// The archive may contain resources that the cluster does not serve.
				gr = schema.ParseGroupResource(name)
			}
			if left[gr] {
				delete(left, gr)
				taken = append(taken, gr)
			}
		}
		return taken
	}
	high, low := take(p.High), take(p.Low)
	ordered := high
	for _, gr := range present {
		if left[gr] {
			ordered = append(ordered, gr)
		}
	}
	return append(ordered, low...)
}
