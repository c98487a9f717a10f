package plan

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

var (
	namespacesResource       = schema.GroupResource{Resource: "namespaces"}
	dataUploadsResource      = schema.GroupResource{Group: velerov1.SchemeGroupVersion.Group, Resource: "datauploads"}
	snapshotContentsResource = schema.GroupResource{Group: "snapshot.storage.k8s.io", Resource: "volumesnapshotcontents"}
)

// NonRestorableResources returns the resources that are never restored: observations of the cluster and the state
// of the server. A restore that includes one of them by name is invalid.
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

// Selection decides which objects of an archive are restored, and into which namespaces.
type Selection struct {
	spec       *velerov1.RestoreSpec
	resources  filter.Names
	status     filter.Names
	namespaces filter.Namespaces
	selectors  []labels.Selector // an object must match one of them, if there are any
}

// NewSelection resolves the filters of a restore against the content of an archive and the resources of a cluster.
func NewSelection(spec *velerov1.RestoreSpec, backup *archive.Archive, snapshot *discovery.Snapshot) (*Selection, error) {
	s := &Selection{spec: spec}
	if spec.LabelSelector != nil && len(spec.OrLabelSelectors) > 0 {
		return nil, errors.New("labelSelector and orLabelSelectors are both given, want one of them")
	}
	selectors := spec.OrLabelSelectors
	if spec.LabelSelector != nil {
		selectors = []*metav1.LabelSelector{spec.LabelSelector}
	}
	for _, selector := range selectors {
		parsed, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			return nil, fmt.Errorf("label selector: %w", err)
		}
		s.selectors = append(s.selectors, parsed)
	}
	if slices.Contains(spec.ExcludedNamespaces, "*") {
		return nil, errors.New(`excludedNamespaces holds "*", which leaves nothing to restore; name the namespaces to exclude`)
	}
	present := map[string]bool{}
	for _, name := range backup.Namespaces() {
		present[name] = true
	}
	for e := range backup.Items(namespacesResource) {
		present[e.Name] = true
	}
	var err error
	s.namespaces, err = filter.NewNamespaces(spec.IncludedNamespaces, spec.ExcludedNamespaces, slices.Sorted(maps.Keys(present)))
	if err != nil {
		return nil, fmt.Errorf("namespaces of the restore: %w", err)
	}
	return s, s.Resolve(snapshot)
}

// Resolve resolves the resource filters again. It is called when the cluster serves more than before.
func (s *Selection) Resolve(snapshot *discovery.Snapshot) (err error) {
	names := func(includes, excludes []string, always ...string) (filter.Names, error) {
		includes, _ = filter.ResolveNames(includes, snapshot)
		excludes, _ = filter.ResolveNames(excludes, snapshot)
		return filter.NewNames(includes, append(excludes, always...))
	}
	if s.resources, err = names(s.spec.IncludedResources, s.spec.ExcludedResources, NonRestorableResources()...); err != nil {
		return fmt.Errorf("resources of the restore: %w", err)
	}
	if status := s.spec.RestoreStatus; status != nil {
		if s.status, err = names(status.IncludedResources, status.ExcludedResources); err != nil {
			return fmt.Errorf("resources of restoreStatus: %w", err)
		}
	}
	return nil
}

// MissingNamespaces returns the included namespaces that the backup does not contain.
func (s *Selection) MissingNamespaces() []string { return s.namespaces.Missing() }

// isRequired reports whether the filters by type and namespace do not apply to a resource, because volumes
// depend on it.
func isRequired(gr schema.GroupResource) bool {
	return gr == dataUploadsResource || gr == snapshotContentsResource
}

// IncludesResource reports whether objects of a resource are restored at all.
func (s *Selection) IncludesResource(gr schema.GroupResource) bool {
	return isRequired(gr) || s.resources.Match(gr.String())
}

// Selects reports whether an object of an included resource is restored for its own sake, labels aside.
//
// Cluster-scoped objects are if includeClusterResources is true, or if it is unset and no namespace is excluded. A
// Namespace object is one of them and must pass the namespace filter too: an excluded namespace is not created.
func (s *Selection) Selects(e archive.Entry) bool {
	if e.Namespace != "" {
		return isRequired(e.GroupResource) || s.namespaces.Match(e.Namespace)
	}
	if e.GroupResource == namespacesResource && !s.namespaces.Match(e.Name) {
		return false
	}
	if include := s.spec.IncludeClusterResources; include != nil {
		return *include
	}
	return s.namespaces.Everything()
}

// Allows reports whether an object may be restored because another one needs it. Cluster-scoped objects may,
// unless includeClusterResources is false.
func (s *Selection) Allows(e archive.Entry) bool {
	if !s.IncludesResource(e.GroupResource) {
		return false
	}
	if e.Namespace != "" {
		return isRequired(e.GroupResource) || s.namespaces.Match(e.Namespace)
	}
	if e.GroupResource == namespacesResource && !s.namespaces.Match(e.Name) {
		return false
	}
	return s.spec.IncludeClusterResources == nil || *s.spec.IncludeClusterResources
}

// SelectsByLabels reports whether objects of a resource are selected by their labels.
func (s *Selection) SelectsByLabels(gr schema.GroupResource) bool {
	return len(s.selectors) > 0 && !isRequired(gr)
}

// MatchesLabels reports whether labels match one of the label selectors.
func (s *Selection) MatchesLabels(objectLabels map[string]string) bool {
	return slices.ContainsFunc(s.selectors, func(one labels.Selector) bool {
		return one.Matches(labels.Set(objectLabels))
	})
}

// Includes reports whether an object is restored for its own sake by all filters together.
func (s *Selection) Includes(e archive.Entry, objectLabels map[string]string) bool {
	return s.IncludesResource(e.GroupResource) && s.Selects(e) && (!s.SelectsByLabels(e.GroupResource) || s.MatchesLabels(objectLabels))
}

// Target returns the namespace into which the objects of a namespace of the backup are restored.
func (s *Selection) Target(namespace string) string {
	if mapped, ok := s.spec.NamespaceMapping[namespace]; ok && namespace != "" {
		return mapped
	}
	return namespace
}

// RestoresStatus reports whether the status of an object is restored. An annotation of the object decides, else
// the restore for the resource; the default is no.
func (s *Selection) RestoresStatus(gr schema.GroupResource, annotations map[string]string) bool {
	switch strings.ToLower(strings.TrimSpace(annotations[velerov1.RestoreStatusAnnotation])) {
	case "true":
		return true
	case "false":
		return false
	}
	return s.spec.RestoreStatus != nil && s.status.Match(gr.String())
}
