package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/archive"
	"github.com/cleat-dev/cleat/server/internal/kube/discovery"
	"github.com/cleat-dev/cleat/server/internal/spec/filter"
)

var (
	namespacesResource  = schema.GroupResource{Resource: "namespaces"}
	dataUploadsResource = schema.GroupResource{Group: velerov1.SchemeGroupVersion.Group, Resource: "datauploads"}
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

// Selection decides which objects of an archive are restored, and into which namespaces. It is safe for concurrent use.
type Selection struct {
	spec       *velerov1.RestoreSpec
	server     string // namespace of the server that restores
	backup     *archive.Archive
	present    []string // namespaces of the backup
	namespaces filter.Namespaces
	selectors  *filter.Selectors
	policy     filter.RuleLists // rules of the resource policy; where they decide, the label selectors do not apply
	resolved   atomic.Pointer[resolved]
}

// resolved are the filters as the resources of a cluster resolve them.
type resolved struct {
	resources  filter.Names
	status     filter.Names
	unresolved []string     // names of resources that the cluster does not serve, and globs that match none of them
	rules      filter.Rules // of the policy
	warnings   []string     // about the rules
}

// Unpacks returns a function that reports whether a restore may read objects of a resource in a namespace of the
// backup; nil if it may read all. The function is not safe for concurrent use.
func Unpacks(spec *velerov1.RestoreSpec) func(gr schema.GroupResource, namespace string) bool {
	includes, excludes := spec.IncludedNamespaces, spec.ExcludedNamespaces
	if len(excludes) == 0 && (len(includes) == 0 || slices.Contains(includes, "*")) {
		return nil
	}
	matches := map[string]bool{"": true} // cluster-scoped objects
	return func(gr schema.GroupResource, namespace string) bool {
		matched, known := matches[namespace]
		if !known {
			filter, err := filter.NewNamespaces(includes, excludes, []string{namespace})
			matched = err != nil || filter.Match(namespace) // NewSelection reports the error
			matches[namespace] = matched
		}
		return matched || isRequired(gr)
	}
}

// NewSelection resolves the filters of a restore, and the rules of its resource policy, against the content of an
// archive and the resources of a cluster.
func NewSelection(
	restore *velerov1.Restore, policy filter.RuleLists, backup *archive.Archive, snapshot *discovery.Snapshot,
) (*Selection, error) {
	spec := &restore.Spec
	s := &Selection{spec: spec, server: restore.Namespace, backup: backup, policy: policy}
	var err error
	if s.selectors, err = filter.NewSelectors(spec.LabelSelector, spec.OrLabelSelectors); err != nil {
		return nil, err
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
	s.present = slices.Sorted(maps.Keys(present))
	if s.namespaces, err = filter.NewNamespaces(spec.IncludedNamespaces, spec.ExcludedNamespaces, s.present); err != nil {
		return nil, fmt.Errorf("namespaces of the restore: %w", err)
	}
	return s, s.Resolve(snapshot)
}

// Resolve resolves the resource filters again. It is called when the cluster serves more than before.
func (s *Selection) Resolve(snapshot *discovery.Snapshot) (err error) {
	r := &resolved{}
	names := func(includes, excludes []string) (filter.Names, error) {
		return filter.NewNames(s.resolve(r, includes, snapshot), s.resolve(r, excludes, snapshot))
	}
	if r.resources, err = names(s.spec.IncludedResources, s.spec.ExcludedResources); err != nil {
		return fmt.Errorf("resources of the restore: %w", err)
	}
	if status := s.spec.RestoreStatus; status != nil {
		if r.status, err = names(status.IncludedResources, status.ExcludedResources); err != nil {
			return fmt.Errorf("resources of restoreStatus: %w", err)
		}
	}
	if r.rules, r.warnings, err = filter.NewRules(s.policy, snapshot); err != nil {
		return fmt.Errorf("resource policy of the restore: %w", err)
	}
	s.resolved.Store(r)
	return nil
}

// Warnings returns the problems with the rules of the resource policy in this cluster.
func (s *Selection) Warnings() []string { return s.resolved.Load().warnings }

// isRequired reports whether the filters by type and namespace do not apply to a resource, because volumes
// depend on it.
func isRequired(gr schema.GroupResource) bool {
	return gr == dataUploadsResource
}

// IncludesResource reports whether the filters include objects of a resource.
func (s *Selection) IncludesResource(gr schema.GroupResource) bool {
	return isRequired(gr) || s.resolved.Load().resources.Match(gr.String())
}

// ExcludesResource reports whether the filters exclude objects of a resource by name.
func (s *Selection) ExcludesResource(gr schema.GroupResource) bool {
	return s.resolved.Load().resources.Excluded(gr.String())
}

// Restores reports whether an object that the filters include is restored. Some are never restored, regardless of the
// filters.
func (s *Selection) Restores(e archive.Entry) bool {
	return !IsNonRestorable(e.GroupResource) && !s.BelongsToServer(e.GroupResource, s.Target(e.Namespace))
}

// Selects reports whether the filters select an object of an included resource, without regard to labels.
//
// They select a cluster-scoped object if includeClusterResources is true, or if it is unset and no namespace is
// excluded. A Namespace object must also pass the namespace filter: an excluded namespace is not created.
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

// Allows reports whether an object may be restored because another one needs it. Cluster-scoped objects may, unless
// includeClusterResources is false.
func (s *Selection) Allows(e archive.Entry) bool {
	if !s.IncludesResource(e.GroupResource) || !s.Restores(e) {
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

// SelectsByContent reports whether objects of a resource are selected by more than their paths in the archive.
func (s *Selection) SelectsByContent(gr schema.GroupResource) bool {
	return (s.selectors.Any() || s.resolved.Load().rules.Any()) && !isRequired(gr)
}

// MatchesContent reports whether the rule for an object selects it or, if there is no rule, a label selector.
func (s *Selection) MatchesContent(e archive.Entry, kind string, objectLabels map[string]string) bool {
	rules := s.resolved.Load().rules
	if selected, decided := rules.Select(e.GroupResource, kind, e.Namespace, e.Name, objectLabels); decided {
		return selected
	}
	return s.selectors.Match(objectLabels)
}

// Includes reports whether all filters together select an object.
func (s *Selection) Includes(e archive.Entry, kind string, objectLabels map[string]string) bool {
	return s.IncludesResource(e.GroupResource) && s.Selects(e) &&
		(!s.SelectsByContent(e.GroupResource) || s.MatchesContent(e, kind, objectLabels))
}

// Target returns the namespace into which the objects of a namespace of the backup are restored.
func (s *Selection) Target(namespace string) string {
	return s.spec.TargetNamespace(namespace)
}

// RestoresStatus reports whether the status of an object is restored. An annotation of the object decides, or else the
// restore for the resource; the default is no.
func (s *Selection) RestoresStatus(gr schema.GroupResource, annotations map[string]string) bool {
	switch strings.ToLower(strings.TrimSpace(annotations[velerov1.RestoreStatusAnnotation])) {
	case "true":
		return true
	case "false":
		return false
	}
	return s.spec.RestoreStatus != nil && s.resolved.Load().status.Match(gr.String())
}
