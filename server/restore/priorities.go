package restore

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/cleat-dev/cleat/server/discovery"
)

// Priorities is the order in which resources are restored: High in their order, then those that are not
// named by their names, then Low in their order. Names may be given in any form that discovery
// resolves. Custom resource definitions always come first.
type Priorities struct {
	High []string
	Low  []string
}

// lowSeparator stands between the two lists in the text form.
const lowSeparator = "-"

// DefaultPriorities is the order of Velero: what others refer to comes before them, volumes before claims
// before pods, pods before what would otherwise create them anew; controllers of whole clusters last.
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

// ParsePriorities reads "high1,high2,-,low1,low2". Without "-" all are high; the empty text is no
// priorities at all. White space around names is dropped.
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
			return Priorities{}, fmt.Errorf(`resource priorities %q: more than one %q, want "high1,high2,-,low1"`, text, lowSeparator)
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

// String is the form that ParsePriorities reads.
func (p Priorities) String() string {
	all := slices.Clone(p.High)
	if len(p.Low) > 0 {
		all = append(append(all, lowSeparator), p.Low...)
	}
	return strings.Join(all, ",")
}

// order sorts the resources of an archive. present are sorted by name. A resource that is named twice, or
// once high and once low, is taken at its first place.
func (p Priorities) order(present []schema.GroupResource, snapshot *discovery.Snapshot) []schema.GroupResource {
	left := make(map[schema.GroupResource]bool, len(present))
	for _, gr := range present {
		left[gr] = true
	}
	take := func(names []string) []schema.GroupResource {
		var taken []schema.GroupResource
		for _, name := range names {
			gr, ok := snapshot.Resolve(name)
			if !ok || !left[gr] {
				// The cluster need not know what the archive holds.
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
