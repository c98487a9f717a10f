package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/internal/spec/filter"
	backupqueue "github.com/cleat-dev/cleat/server/internal/spec/queue"
)

// TestItemOverlapNeverAdmitsTwoBackupsThatShareAnObject calls cleat.dev/item-overlap for random backups of a small
// cluster, and compares with the objects and volumes that the server's own filters select for each.
func TestItemOverlapNeverAdmitsTwoBackupsThatShareAnObject(t *testing.T) {
	t.Parallel()
	const seed, rounds, limit = 11, 600, 4
	random := rand.New(rand.NewPCG(seed, seed))
	s := newSite(t, "backups: {admission: {plugin: cleat.dev/item-overlap}}\n")
	cluster := newModelCluster()
	var resolver backupqueue.Resolver
	together, waited := 0, 0
	for round := range rounds {
		var backups []*velerov1.Backup
		takes := map[string]map[string]bool{}
		for i := range 6 {
			b := &velerov1.Backup{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("b%d", i),
				UID: types.UID(fmt.Sprintf("%d-%d", round, i))}}
			b.Spec = randomSpec(random)
			if i < 2 {
				b.Status.Phase = velerov1.BackupPhaseInProgress
			}
			backups = append(backups, b)
			takes[b.Name] = cluster.takes(t, &b.Spec)
		}
		line := backupqueue.NewLine(backups)
		snapshot := resolver.Snapshot(line, cluster.namespaces, limit, noon())
		outcome, err := s.Admission.Decide(t.Context(), snapshot)
		require.NoError(t, err)
		started := []string{"b0", "b1"}
		for _, name := range outcome.Decision.Admit {
			for _, other := range started {
				for object := range takes[name] {
					require.NotContains(t, takes[other], object, "round %d: %s is admitted beside %s, and both take it:\n%+v\n%+v",
						round, name, other, specOf(backups, name), specOf(backups, other))
				}
				if specOf(backups, name).IncludedNamespaces[0] == specOf(backups, other).IncludedNamespaces[0] {
					together++
				}
			}
			started = append(started, name)
		}
		waited += len(outcome.Decision.Waiting)
	}
	require.Greater(t, together, rounds/20, "two of one namespace do run together")
	require.Greater(t, waited, rounds)
}

func specOf(backups []*velerov1.Backup, name string) *velerov1.BackupSpec {
	at := slices.IndexFunc(backups, func(b *velerov1.Backup) bool { return b.Name == name })
	return &backups[at].Spec
}

// randomSpec returns a spec with few filters, in all forms in use.
func randomSpec(random *rand.Rand) velerov1.BackupSpec {
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	some := func(most int, from ...string) (names []string) {
		for range random.IntN(most + 1) {
			names = append(names, pick(from...))
		}
		return names
	}
	namespaced := []string{
		"pods", "po", "Pod", "pvc", "persistentvolumeclaims", "configmaps", "cm", "secrets", "SECRET", "deploy",
		"deployments.apps", "deployments.ap",
		"deployments.APPS", "roles", "roles.rbac", "roles.example", "quota", "quotas.example.com", "resourcequotas",
		"widgets", "wd", "widgets.example",
		"widgets.example.org", "wd.example.com", "*", "*.example.com", "secret*", "configmap?", "{pods,secrets}", "unicorns",
		" secrets",
	}
	cluster := []string{"pv", "persistentvolumes", "sc", "storageclasses.storage", "planes.example.com", "planes", "*",
		"*.example.com"}
	var spec velerov1.BackupSpec
	spec.IncludedNamespaces = []string{pick("shop", "shop", "shop", "yard", "sh*", "*")}
	spec.ExcludedNamespaces = some(1, "yard", "none", "s*")
	if random.IntN(2) == 0 {
		both := slices.Concat(namespaced, namespaced, cluster)
		spec.IncludedResources, spec.ExcludedResources = some(3, both...), some(2, both...)
		spec.IncludeClusterResources = []*bool{nil, nil, new(false), new(true)}[random.IntN(4)]
	} else {
		spec.IncludedNamespaceScopedResources, spec.ExcludedNamespaceScopedResources = some(3, namespaced...), some(1,
			namespaced...)
		spec.IncludedClusterScopedResources, spec.ExcludedClusterScopedResources = some(1, cluster...), some(1, cluster...)
		if random.IntN(8) == 0 {
			spec.ResourcePolicy = &velerov1.TypedLocalObjectReference{Kind: "ConfigMap", Name: "policy"}
		}
	}
	for range max(0, random.IntN(4)-1) {
		requirement := metav1.LabelSelectorRequirement{
			Key:      pick("app", "app", "tier"),
			Operator: metav1.LabelSelectorOperator(pick("In", "In", "NotIn", "Exists", "DoesNotExist")),
		}
		if requirement.Operator == "In" || requirement.Operator == "NotIn" {
			requirement.Values = append([]string{pick("a", "b")}, some(1, "a", "b", "c")...)
		}
		spec.OrLabelSelectors = append(spec.OrLabelSelectors,
			&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{requirement}})
	}
	return spec
}

// modelCluster has an object of each resource for each set of labels, in each namespace.
type modelCluster struct {
	snapshot   *discovery.Snapshot
	namespaces []string
	labels     map[string]labels.Set // by the names of objects
}

func newModelCluster() *modelCluster {
	resource := func(name, singular, short string, namespaced bool) metav1.APIResource {
		return metav1.APIResource{
			Name: name, SingularName: singular, Kind: singular, ShortNames: []string{short}, Namespaced: namespaced,
			Verbs: metav1.Verbs{"list", "create", "get", "delete"},
		}
	}
	return &modelCluster{
		namespaces: []string{"shop", "yard"},
		labels:     map[string]labels.Set{"a": {"app": "a"}, "b": {"app": "b", "tier": "gold"}, "bare": {}},
		snapshot: discovery.NewSnapshot(nil, []*metav1.APIResourceList{
			{GroupVersion: "v1", APIResources: []metav1.APIResource{
				resource("pods", "pod", "po", true), resource("persistentvolumeclaims", "persistentvolumeclaim", "pvc", true),
				resource("persistentvolumes", "persistentvolume", "pv", false), resource("configmaps", "configmap", "cm", true),
				resource("secrets", "secret", "", true), resource("resourcequotas", "resourcequota", "quota", true),
				resource("namespaces", "namespace", "ns", false),
			}},
			{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{resource("deployments", "deployment", "deploy", true)}},
			{GroupVersion: "rbac.authorization.k8s.io/v1",
				APIResources: []metav1.APIResource{resource("roles", "role", "", true)}},
			{GroupVersion: "storage.k8s.io/v1",
				APIResources: []metav1.APIResource{resource("storageclasses", "storageclass", "sc", false)}},
			{GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{
				resource("widgets", "widget", "wd", true), resource("quotas", "quota", "", true), resource("planes", "plane", "",
					false),
			}},
			{GroupVersion: "example.org/v1", APIResources: []metav1.APIResource{resource("widgets", "widget", "", true),
				resource("roles", "role", "", true)}},
		}),
	}
}

// takes returns the objects and volumes that a backup includes, without the namespaces. An invalid backup includes
// none.
func (c *modelCluster) takes(t *testing.T, spec *velerov1.BackupSpec) map[string]bool {
	t.Helper()
	namespaces, err := filter.NewNamespaces(spec.IncludedNamespaces, spec.ExcludedNamespaces, c.namespaces)
	require.NoError(t, err)
	lists := filter.ResourceLists{
		Included: spec.IncludedResources, Excluded: spec.ExcludedResources, IncludeCluster: spec.IncludeClusterResources,
		IncludedClusterScoped: spec.IncludedClusterScopedResources,
		ExcludedClusterScoped: spec.ExcludedClusterScopedResources,
		IncludedNamespaced:    spec.IncludedNamespaceScopedResources,
		ExcludedNamespaced:    spec.ExcludedNamespaceScopedResources,
	}
	if spec.ResourcePolicy != nil {
		lists.Policy = filter.ScopedLists{IncludedNamespaced: []string{"secrets"},
			IncludedClusterScoped: []string{"storageclasses"}}
	}
	resources, _, err := filter.NewResources(lists, namespaces, c.snapshot)
	taken := map[string]bool{}
	if err != nil {
		return taken
	}
	one := func(plural, namespace, name string) {
		if res, ok := c.snapshot.ByGroupResource(schema.GroupResource{Resource: plural}); ok && resources.Allows(res) {
			taken[fmt.Sprintf("%s %s/%s", plural, namespace, name)] = true
		}
	}
	for _, res := range c.snapshot.Resources() {
		gr := res.GroupResource().String()
		if gr == "namespaces" || !resources.Includes(res) {
			continue
		}
		for name, set := range c.labels {
			for _, namespace := range c.namespaces {
				switch {
				case !matchesOne(t, spec.OrLabelSelectors, set):
				case gr == "persistentvolumes": // bound to a claim with another name, so that the labels differ
					claim := map[string]string{"a": "b", "b": "bare", "bare": "a"}[name]
					taken[fmt.Sprintf("%s /%s-%s", gr, namespace, claim)], taken["volume "+namespace+"/"+claim] = true, true
				case !res.Namespaced:
					taken[gr+" /"+name] = true
				case namespaces.Match(namespace):
					taken[fmt.Sprintf("%s %s/%s", gr, namespace, name)] = true
					var claims []string
					switch gr {
					case "pods": // each uses a claim of its own, and one that they all share
						claims = []string{name, "bare"}
					case "persistentvolumeclaims":
						claims = []string{name}
					}
					for _, claim := range claims {
						taken["volume "+namespace+"/"+claim] = true
						one("persistentvolumeclaims", namespace, claim)
						one("persistentvolumes", "", namespace+"-"+claim)
					}
				}
			}
		}
	}
	return taken
}

func matchesOne(t *testing.T, selectors []*metav1.LabelSelector, set labels.Set) bool {
	t.Helper()
	for _, s := range selectors {
		selector, err := metav1.LabelSelectorAsSelector(s)
		require.NoError(t, err)
		if selector.Matches(set) {
			return true
		}
	}
	return len(selectors) == 0
}
