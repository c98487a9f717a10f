package itemoverlap

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
)

// filter has the filters of a backup, except for its namespaces.
type filter struct {
	// key is equal for filters that include the same objects.
	key string
	// unknown is set if the spec cannot be decoded: the backup may include everything.
	unknown    bool
	namespaced resources
	cluster    resources
	wide       bool                   // it includes cluster-scoped resources themselves, not only along with other objects
	selectors  []metav1.LabelSelector // at least one must match; none matches all labels

	volumes    bool // it may include volumes of its namespaces, through pods or claims
	allVolumes bool // it may include volumes whose claims are in other namespaces
}

// filters caches the filters of the backups of one decision.
type filters struct {
	known         map[*qav1.Backup]*filter
	sharedVolumes bool
}

func (f *filters) of(backup *qav1.Backup) *filter {
	read := f.known[backup]
	if read == nil {
		read = newFilter(backup)
		f.known[backup] = read
	}
	return read
}

func (f *filters) key(backup *qav1.Backup) string { return f.of(backup).key }

// share reports whether two backups of one namespace may take the same object, or data of the same volume.
func (f *filters) share(a, b *qav1.Backup) bool {
	one, other := f.of(a), f.of(b)
	switch {
	case one.unknown || other.unknown || oneTakesAllVolumes(one, other):
		return true
	case one.volumes && other.volumes: // a pod and a claim may use the same volume
	case one.namespaced.apart(other.namespaced) && clusterApart(one, other):
		return false
	}
	if f.sharedVolumes && (one.volumes || other.volumes) {
		return true
	}
	return !selectorsApart(one.selectors, other.selectors)
}

func (f *filters) wide(backup *qav1.Backup) bool { return f.of(backup).wide }

// shareWide reports whether two backups without a common namespace may take the same object, or data of the same
// volume.
func (f *filters) shareWide(a, b *qav1.Backup) bool {
	one, other := f.of(a), f.of(b)
	switch {
	case one.unknown || other.unknown || oneTakesAllVolumes(one, other):
		return true
	default:
		return !clusterApart(one, other) && !selectorsApart(one.selectors, other.selectors)
	}
}

// oneTakesAllVolumes reports whether one of them includes all volumes and the other any. Labels do not matter, because
// volumes have labels of their own.
func oneTakesAllVolumes(one, other *filter) bool {
	return one.allVolumes && (other.volumes || other.allVolumes) || other.allVolumes && one.volumes
}

// clusterApart reports whether the two certainly include no common cluster-scoped resource.
func clusterApart(one, other *filter) bool {
	return !one.wide || !other.wide || one.cluster.apart(other.cluster)
}

func newFilter(backup *qav1.Backup) *filter {
	// With excluded namespaces, a backup of all namespaces may or may not include cluster-scoped resources; in doubt it
	// does.
	wide := backup.ClusterScope == qav1.ClusterScopeAll ||
		backup.AllNamespaces && backup.ClusterScope != qav1.ClusterScopeNone
	spec, err := backup.DecodeSpec()
	if err != nil {
		return &filter{key: "unknown", unknown: true, wide: wide}
	}
	// Servers do not treat "*" as an exclusion in these lists.
	exclude := slices.DeleteFunc(spec.ExcludedResources, func(name string) bool { return name == "*" })
	read := &filter{
		namespaced: resources{include: spec.IncludedResources, exclude: exclude},
		cluster:    resources{include: spec.IncludedResources, exclude: exclude},
		wide:       wide,
	}
	scoped := len(spec.IncludedNamespaceScopedResources) + len(spec.ExcludedNamespaceScopedResources) +
		len(spec.IncludedClusterScopedResources) + len(spec.ExcludedClusterScopedResources)
	if scoped > 0 {
		read.namespaced = resources{include: spec.IncludedNamespaceScopedResources,
			exclude: spec.ExcludedNamespaceScopedResources}
		read.cluster = resources{include: spec.IncludedClusterScopedResources, exclude: spec.ExcludedClusterScopedResources}
	}
	if spec.ResourcePolicy != nil { // it may include more
		read.namespaced.include, read.cluster.include = nil, nil
		read.wide = backup.ClusterScope != qav1.ClusterScopeNone
	}
	if spec.LabelSelector != nil {
		read.selectors = append(read.selectors, *spec.LabelSelector)
	}
	for _, selector := range spec.OrLabelSelectors {
		if selector != nil {
			read.selectors = append(read.selectors, *selector)
		}
	}
	read.namespaced.resolve()
	read.cluster.resolve()
	read.volumes = read.namespaced.may("pods") || read.namespaced.may("persistentvolumeclaims")
	read.allVolumes = read.wide && read.cluster.may("persistentvolumes")
	key, err := json.Marshal([]any{
		read.namespaced.include, read.namespaced.exclude, read.cluster.include, read.cluster.exclude, read.wide,
		read.selectors,
	})
	if err != nil {
		return &filter{key: "unknown", unknown: true, wide: wide}
	}
	read.key = string(key)
	return read
}
