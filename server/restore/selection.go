package restore

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/archive"
	"github.com/cleat-dev/cleat/server/discovery"
	"github.com/cleat-dev/cleat/server/filter"
)

// Resources that the engine treats in a way of their own.
var (
	grCRDs                   = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
	grNamespaces             = schema.GroupResource{Resource: "namespaces"}
	grPods                   = schema.GroupResource{Resource: "pods"}
	grJobs                   = schema.GroupResource{Group: "batch", Resource: "jobs"}
	grServiceAccounts        = schema.GroupResource{Resource: "serviceaccounts"}
	grPersistentVolumes      = schema.GroupResource{Resource: "persistentvolumes"}
	grPersistentVolumeClaims = schema.GroupResource{Resource: "persistentvolumeclaims"}
	grDataUploads            = schema.GroupResource{Group: velerov1.SchemeGroupVersion.Group, Resource: "datauploads"}
	grSnapshotContents       = schema.GroupResource{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshotcontents"}
)

// NonRestorableResources are never restored: what the cluster itself observes, and the server's own state.
// A restore that includes one of them by name is to be refused.
func NonRestorableResources() []string {
	return []string{
		"nodes",
		"events",
		"events.events.k8s.io",
		"backups.velero.io",
		"restores.velero.io",
		"resticrepositories.velero.io",
		"backuprepositories.velero.io",
		"csinodes.storage.k8s.io",
		"volumeattachments.storage.k8s.io",
	}
}

// selection says which objects of an archive a restore is about, and where they go.
type selection struct {
	spec       *velerov1.RestoreSpec
	resources  filter.Names
	status     filter.Names
	namespaces filter.Namespaces
	selectors  []labels.Selector // an object has to match one of them; none means all
}

// newSelection compiles the filters of a restore for what an archive holds and a cluster serves.
func newSelection(spec *velerov1.RestoreSpec, backup *archive.Archive, snapshot *discovery.Snapshot) (*selection, error) {
	s := &selection{spec: spec}
	if spec.LabelSelector != nil && len(spec.OrLabelSelectors) > 0 {
		return nil, errors.New("labelSelector and orLabelSelectors are both given, want one of them")
	}
	asked := spec.OrLabelSelectors
	if spec.LabelSelector != nil {
		asked = []*metav1.LabelSelector{spec.LabelSelector}
	}
	for _, selector := range asked {
		compiled, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			return nil, fmt.Errorf("label selector: %w", err)
		}
		s.selectors = append(s.selectors, compiled)
	}
	if slices.Contains(spec.ExcludedNamespaces, "*") {
		return nil, errors.New(`excludedNamespaces holds "*", which leaves nothing to restore; name the namespaces to leave out`)
	}
	present := map[string]bool{}
	for _, name := range backup.Namespaces() {
		present[name] = true
	}
	for e := range backup.Items(grNamespaces) {
		present[e.Name] = true
	}
	var err error
	s.namespaces, err = filter.NewNamespaces(spec.IncludedNamespaces, spec.ExcludedNamespaces, slices.Sorted(maps.Keys(present)))
	if err != nil {
		return nil, fmt.Errorf("namespaces of the restore: %w", err)
	}
	return s, s.resolve(snapshot)
}

// resolve compiles the resource filters again, once the cluster serves more than before.
func (s *selection) resolve(snapshot *discovery.Snapshot) (err error) {
	names := func(includes, excludes []string, always ...string) (filter.Names, error) {
		includes, _ = filter.ResolveNames(includes, snapshot)
		excludes, _ = filter.ResolveNames(excludes, snapshot)
		return filter.NewNames(includes, append(excludes, always...))
	}
	if s.resources, err = names(s.spec.IncludedResources, s.spec.ExcludedResources, NonRestorableResources()...); err != nil {
		return fmt.Errorf("resources of the restore: %w", err)
	}
	if wanted := s.spec.RestoreStatus; wanted != nil {
		if s.status, err = names(wanted.IncludedResources, wanted.ExcludedResources); err != nil {
			return fmt.Errorf("resources of restoreStatus: %w", err)
		}
	}
	return nil
}

// mustHave are resources that filters of type and namespace do not apply to: volumes depend on them.
func mustHave(gr schema.GroupResource) bool { return gr == grDataUploads || gr == grSnapshotContents }

// resource says whether the type is restored at all.
func (s *selection) resource(gr schema.GroupResource) bool {
	return mustHave(gr) || s.resources.Match(gr.String())
}

// selected says whether an object of a resource that is restored is restored by itself, labels apart.
//
// Cluster-scoped objects are restored by themselves if includeClusterResources says so, or if it says
// nothing and no namespace is left out. A Namespace object is one of them, and it has to pass the
// namespace filter too: an excluded namespace is not made.
func (s *selection) selected(e archive.Entry) bool {
	if e.Namespace != "" {
		return mustHave(e.GroupResource) || s.namespaces.Match(e.Namespace)
	}
	if e.GroupResource == grNamespaces && !s.namespaces.Match(e.Name) {
		return false
	}
	if include := s.spec.IncludeClusterResources; include != nil {
		return *include
	}
	return s.namespaces.Everything()
}

// allowed says whether an object may be restored because another one needs it. Cluster-scoped ones may,
// unless includeClusterResources is false.
func (s *selection) allowed(e archive.Entry) bool {
	if !s.resource(e.GroupResource) {
		return false
	}
	if e.Namespace != "" {
		return mustHave(e.GroupResource) || s.namespaces.Match(e.Namespace)
	}
	if e.GroupResource == grNamespaces && !s.namespaces.Match(e.Name) {
		return false
	}
	return s.spec.IncludeClusterResources == nil || *s.spec.IncludeClusterResources
}

// byLabels says whether the labels of objects matter.
func (s *selection) byLabels(gr schema.GroupResource) bool {
	return len(s.selectors) > 0 && !mustHave(gr)
}

func (s *selection) matchesLabels(objectLabels map[string]string) bool {
	return slices.ContainsFunc(s.selectors, func(one labels.Selector) bool {
		return one.Matches(labels.Set(objectLabels))
	})
}

// collected says whether an object is restored by itself, all filters taken together.
func (s *selection) collected(e archive.Entry, objectLabels map[string]string) bool {
	return s.resource(e.GroupResource) && s.selected(e) && (!s.byLabels(e.GroupResource) || s.matchesLabels(objectLabels))
}

// target is the namespace into which objects of a namespace of the backup are restored.
func (s *selection) target(namespace string) string {
	if mapped, ok := s.spec.NamespaceMapping[namespace]; ok && namespace != "" {
		return mapped
	}
	return namespace
}

// restoresStatus says whether the status of an object is restored: as its own annotation says, else as
// the restore says for its type, else not.
func (s *selection) restoresStatus(gr schema.GroupResource, annotations map[string]string) bool {
	switch strings.ToLower(strings.TrimSpace(annotations[velerov1.RestoreStatusAnnotation])) {
	case "true":
		return true
	case "false":
		return false
	}
	return s.spec.RestoreStatus != nil && s.status.Match(gr.String())
}
