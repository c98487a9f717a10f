package queue

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/spec/filter"
	"github.com/cleat-dev/cleat/versioning/queueadmission"
)

// ScopeAnnotation of a restore that runs holds its Scope in JSON. A restore without it may write anything that its spec
// includes.
const ScopeAnnotation = "cleat.dev/restore-scope"

// maxScope is the maximum length of the annotation in bytes. A larger scope is not recorded.
const maxScope = 64 << 10

// Scope is the set of objects that a restore may write, by the content of its backup: objects of the resources, in the
// namespaces or, if Cluster is set, in none.
type Scope struct {
	Namespaces []string `json:"namespaces,omitempty"`
	Resources  []string `json:"resources,omitempty"` // "pods", "deployments.apps"
	Cluster    bool     `json:"cluster,omitempty"`
}

// Record records the scope of a restore. It reports whether it has changed the restore.
func (s Scope) Record(r *velerov1.Restore) bool {
	text, err := json.Marshal(s)
	if err != nil || len(text) > maxScope || r.Annotations[ScopeAnnotation] == string(text) {
		return false
	}
	annotations := maps.Clone(r.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[ScopeAnnotation] = string(text)
	r.Annotations = annotations
	return true
}

// Restoring reports whether a restore may write objects, or operations of plugins may work on objects that it has
// written.
func Restoring(r *velerov1.Restore) bool {
	switch velerov1.PhaseOfRestore(r) {
	case velerov1.RestorePhaseInProgress, velerov1.RestorePhaseFinalizing, velerov1.RestorePhaseFinalizingPartiallyFailed,
		velerov1.RestorePhaseWaitingForPluginOperations, velerov1.RestorePhaseWaitingForPluginOperationsPartiallyFailed:
		return true
	default:
		return false
	}
}

// RunningRestores returns the restores that run, the oldest first.
func RunningRestores(restores []velerov1.Restore) []*velerov1.Restore {
	var running []*velerov1.Restore
	for i := range restores {
		if Restoring(&restores[i]) {
			running = append(running, &restores[i])
		}
	}
	slices.SortFunc(running, func(a, b *velerov1.Restore) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return running
}

// restoring returns restores in the form in which policies get them: as backups of the objects that they write.
// namespaces are the existing ones.
func restoring(restores []*velerov1.Restore, namespaces []string) []queueadmission.Backup {
	var all []queueadmission.Backup
	for _, r := range restores {
		seen := queueadmission.Backup{
			Name: "restores/" + r.Name, ClusterScope: queueadmission.ClusterScopeNone,
			Labels: r.Labels, Annotations: r.Annotations, Created: r.CreationTimestamp.Time,
		}
		if r.Status.StartTimestamp != nil {
			seen.Started = r.Status.StartTimestamp.Time
		}
		var scope *Scope
		if err := json.Unmarshal([]byte(r.Annotations[ScopeAnnotation]), &scope); err != nil || scope == nil {
			seen.Namespaces, seen.AllNamespaces = targets(&r.Spec, namespaces)
			scope = &Scope{Namespaces: seen.Namespaces, Cluster: true}
		} else if len(scope.Resources) == 0 {
			continue // it writes nothing
		}
		seen.Namespaces = slices.Compact(slices.Sorted(slices.Values(scope.Namespaces)))
		if scope.Cluster {
			seen.ClusterScope = queueadmission.ClusterScopeAll
		}
		seen.Spec, _ = json.Marshal(velerov1.BackupSpec{ // cannot fail for strings
			IncludedNamespaces: seen.Namespaces, IncludedResources: scope.Resources, IncludeClusterResources: &scope.Cluster,
		})
		all = append(all, seen)
	}
	return all
}

// targets returns the namespaces into which a restore may write by its spec alone. all reports whether these are all
// namespaces; existing are the existing ones.
func targets(spec *velerov1.RestoreSpec, existing []string) (namespaces []string, all bool) {
	for _, name := range spec.IncludedNamespaces {
		if name == "*" || filter.IsGlob(name) {
			return existing, true
		}
		if mapped := spec.NamespaceMapping[name]; mapped != "" {
			name = mapped
		}
		namespaces = append(namespaces, name)
	}
	if len(namespaces) == 0 {
		return existing, true
	}
	return namespaces, false
}
