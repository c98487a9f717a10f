package queue

import (
	"encoding/json"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/spec/filter"
	"github.com/cleat-dev/cleat/versioning/queueadmission"
)

// Resolver converts Backups to the form that policies get. It caches the result for each Backup, so that a decision
// about thousands of backups is cheap if few have changed. It is not safe for concurrent use.
type Resolver struct {
	namespaces []string // the existing ones, sorted
	known      map[types.UID]*resolved
}

// resolved is the cached result for a spec.
type resolved struct {
	version    string // the resource version that was compared last
	spec       velerov1.BackupSpec
	encoded    []byte
	namespaces []string
	all        bool
	scope      queueadmission.ClusterScope
	globs      bool // the result depends on the existing namespaces
	used       bool // by the current call of Snapshot
}

// Snapshot returns the question to the policy about a line, without the policy's config. namespaces are the existing
// ones.
func (r *Resolver) Snapshot(line Line, namespaces []string, limit int, now time.Time) *queueadmission.Snapshot {
	r.setNamespaces(namespaces)
	for _, entry := range r.known {
		entry.used = false
	}
	snapshot := &queueadmission.Snapshot{Input: queueadmission.Input{
		Now: now, Limit: limit,
		Running: r.backups(line.Running), Ready: r.backups(line.Ready), Queued: r.backups(line.Queued),
	}}
	snapshot.Restoring = restoring(line.Restoring, r.namespaces)
	snapshot.Operating = occupied(r.backups(line.Operating), line.Operating)
	for uid, entry := range r.known {
		if !entry.used {
			delete(r.known, uid)
		}
	}
	return snapshot
}

// WithLabels adds the labels of the namespaces of a snapshot to it.
func WithLabels(snapshot *queueadmission.Snapshot, labels map[string]map[string]string) *queueadmission.Snapshot {
	snapshot.NamespaceLabels = map[string]map[string]string{}
	for _, list := range [][]queueadmission.Backup{snapshot.Running, snapshot.Ready, snapshot.Queued, snapshot.Operating,
		snapshot.Restoring} {
		for i := range list {
			for _, name := range list[i].Namespaces {
				if own := labels[name]; len(own) > 0 {
					snapshot.NamespaceLabels[name] = own
				}
			}
		}
	}
	return snapshot
}

func (r *Resolver) setNamespaces(namespaces []string) {
	namespaces = slices.Sorted(slices.Values(namespaces))
	if slices.Equal(namespaces, r.namespaces) {
		return
	}
	r.namespaces = namespaces
	for uid, entry := range r.known {
		if entry.globs {
			delete(r.known, uid)
		}
	}
}

func (r *Resolver) backups(backups []*velerov1.Backup) []queueadmission.Backup {
	out := make([]queueadmission.Backup, 0, len(backups))
	for _, b := range backups {
		what := r.resolve(b)
		seen := queueadmission.Backup{
			Name: b.Name, Namespaces: what.namespaces, AllNamespaces: what.all, ClusterScope: what.scope,
			Labels: b.Labels, Annotations: b.Annotations, Created: b.CreationTimestamp.Time, Spec: what.encoded,
		}
		if b.Status.StartTimestamp != nil {
			seen.Started = b.Status.StartTimestamp.Time
		}
		out = append(out, seen)
	}
	return out
}

func (r *Resolver) resolve(b *velerov1.Backup) *resolved {
	if r.known == nil {
		r.known = map[types.UID]*resolved{}
	}
	entry := r.known[b.UID]
	unchanged := entry != nil && b.ResourceVersion != "" && entry.version == b.ResourceVersion
	if !unchanged && (entry == nil || !equality.Semantic.DeepEqual(&entry.spec, &b.Spec)) {
		entry = newResolved(&b.Spec, r.namespaces)
		r.known[b.UID] = entry
	}
	entry.version, entry.used = b.ResourceVersion, true
	return entry
}

func newResolved(spec *velerov1.BackupSpec, existing []string) *resolved {
	entry := &resolved{spec: *spec.DeepCopy()}
	entry.encoded, _ = json.Marshal(spec) // cannot fail for a spec that was decoded from JSON
	entry.namespaces, entry.all, entry.globs = NamespacesOf(spec, existing)
	entry.scope = scopeOf(spec, entry.all)
	return entry
}

// NamespacesOf returns the namespaces of a backup, sorted. It includes names of namespaces that do not exist. all
// reports whether the backup includes all namespaces, changing whether the result depends on the existing ones. An
// invalid spec is rejected when the backup starts; until then its valid parts count.
func NamespacesOf(spec *velerov1.BackupSpec, existing []string) (namespaces []string, all, changing bool) {
	includes := slices.DeleteFunc(slices.Clone(spec.IncludedNamespaces), func(name string) bool { return name == "" })
	all = len(spec.IncludedNamespaces) == 0 || slices.Contains(includes, "*")
	matched, err := filter.NewNames(includes, spec.ExcludedNamespaces)
	if err != nil {
		// A pattern is invalid: only the plain names count.
		return slices.Compact(slices.Sorted(slices.Values(slices.DeleteFunc(includes, filter.IsGlob)))), all, all
	}
	if !all {
		for _, name := range includes {
			if !filter.IsGlob(name) && !matched.Excluded(name) {
				namespaces = append(namespaces, name)
			}
		}
	}
	changing = all || slices.ContainsFunc(includes, filter.IsGlob)
	if changing && len(spec.IncludedNamespaces) > len(includes) && len(includes) == 0 {
		return nil, false, false // "" alone means no namespace
	}
	if changing {
		for _, name := range existing {
			if matched.Match(name) {
				namespaces = append(namespaces, name)
			}
		}
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces), all, changing
}

// scopeOf returns which cluster-scoped objects a backup includes.
func scopeOf(spec *velerov1.BackupSpec, all bool) queueadmission.ClusterScope {
	switch {
	case spec.IncludeClusterResources != nil && *spec.IncludeClusterResources:
		return queueadmission.ClusterScopeAll
	case spec.IncludeClusterResources != nil:
		return queueadmission.ClusterScopeNone
	case slices.Contains(spec.ExcludedClusterScopedResources, "*"):
		return queueadmission.ClusterScopeNone
	case len(spec.IncludedClusterScopedResources) > 0, all && len(spec.ExcludedNamespaces) == 0:
		return queueadmission.ClusterScopeAll
	default:
		return queueadmission.ClusterScopeRelated
	}
}
