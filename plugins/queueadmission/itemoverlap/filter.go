package itemoverlap

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	qav1 "github.com/cleat-dev/cleat/framework/queueadmission/v1"
)

// filter is what a backup lets through, but for its namespaces.
type filter struct {
	// key is the same for filters that let the same through.
	key string
	// unknown is set when the spec cannot be read: it may let everything through.
	unknown    bool
	namespaced resources
	cluster    resources
	selectors  []metav1.LabelSelector // one of them has to match; none means that all labels do
}

// filters are those of the backups of one decision, each read once.
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

// share says whether two backups may take the same object.
func (f *filters) share(a, b *qav1.Backup) bool {
	one, other := f.of(a), f.of(b)
	if one.unknown || other.unknown {
		return true
	}
	if one.namespaced.apart(other.namespaced) && one.cluster.apart(other.cluster) {
		return false
	}
	if f.sharedVolumes && (one.namespaced.maySpread() || other.namespaced.maySpread()) {
		return true
	}
	return !selectorsApart(one.selectors, other.selectors)
}

func newFilter(backup *qav1.Backup) *filter {
	spec, err := backup.DecodeSpec()
	if err != nil {
		return &filter{key: "unknown", unknown: true}
	}
	read := &filter{
		namespaced: resources{include: spec.IncludedResources, exclude: spec.ExcludedResources},
		cluster:    resources{include: spec.IncludedResources, exclude: spec.ExcludedResources},
	}
	scoped := len(spec.IncludedNamespaceScopedResources) + len(spec.ExcludedNamespaceScopedResources) +
		len(spec.IncludedClusterScopedResources) + len(spec.ExcludedClusterScopedResources)
	if scoped > 0 {
		read.namespaced = resources{include: spec.IncludedNamespaceScopedResources, exclude: spec.ExcludedNamespaceScopedResources}
		read.cluster = resources{include: spec.IncludedClusterScopedResources, exclude: spec.ExcludedClusterScopedResources}
		// Without a list, only what belongs to namespaced objects comes along, which differ when those do.
		read.cluster.none = len(read.cluster.include) == 0 && backup.ClusterScope != qav1.ClusterScopeAll
	}
	read.cluster.none = read.cluster.none || backup.ClusterScope == qav1.ClusterScopeNone
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
	key, err := json.Marshal([]any{
		read.namespaced.include, read.namespaced.exclude, read.cluster.include, read.cluster.exclude, read.cluster.none, read.selectors,
	})
	if err != nil {
		return &filter{key: "unknown", unknown: true}
	}
	read.key = string(key)
	return read
}
