package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
)

// VolumeOverview says which volumes, of bound claims, have no Completed backup since a time.
type VolumeOverview struct {
	Claims      int                `json:"claims"`            // all that are bound
	Unprotected int                `json:"unprotected"`       // those that no backup since then has
	Unknown     int                `json:"unknown"`           // those of which it is not known
	Items       []VolumeProtection `json:"items"`             // those that are not protected, or not known to be
	Problem     string             `json:"problem,omitempty"` // why some are not known
}

// VolumeProtection is a claim whose data is in no Completed backup since a time, or of which that is not known.
type VolumeProtection struct {
	Namespace string       `json:"namespace"`
	Claim     string       `json:"claim"`
	Known     bool         `json:"known"`
	Backup    string       `json:"backup,omitempty"` // the last one since then that includes its namespace
	Completed *metav1.Time `json:"completed,omitempty"`
	Why       string       `json:"why"` // "the backup has left it out: ..."
}

// BackupVolumes is what a backup has of volumes, from its file about them.
type BackupVolumes struct {
	Infos   []volumes.VolumeInfo
	Problem string // why they are not known
}

const (
	// mostOfNamespace is how many backups are asked for the volumes of a namespace: the last ones of schedules, or of
	// different filters.
	mostOfNamespace = 3
	// mostAsked is how many backups are asked for volumes at all.
	mostAsked = 24
)

// BackupsToAsk returns the Completed backups since a time whose files say which volumes of the namespaces of claims
// they have: the last ones of each namespace, the newest first. more is whether there are others.
func BackupsToAsk(of OverviewOf, now time.Time) (ask []*velerov1.Backup, more bool) {
	if len(of.Claims) == 0 {
		return nil, false
	}
	recent := slices.DeleteFunc(slices.Clone(of.Backups), func(b *velerov1.Backup) bool {
		end := b.Status.CompletionTimestamp
		return end == nil || !end.After(now.Add(-of.Since))
	})
	wanted := map[string]int{}
	for _, claim := range of.Claims {
		wanted[claim.Namespace] = mostOfNamespace
	}
	names := slices.Collect(maps.Keys(wanted))
	seen := map[string]bool{}
	for _, b := range completed(recent) {
		if len(wanted) == 0 {
			break
		}
		scope := fmt.Sprint(b.Labels[velerov1.ScheduleNameLabel], b.Spec.IncludedNamespaces, b.Spec.ExcludedNamespaces,
			b.Spec.LabelSelector, b.Spec.IncludedResources, b.Spec.ExcludedResources)
		if seen[scope] { // a later one of the same schedule
			continue
		}
		seen[scope] = true
		in, _, _ := queue.NamespacesOf(&b.Spec, names)
		asked := false
		for _, name := range in {
			if wanted[name] == 0 {
				continue
			}
			asked = true
			if wanted[name]--; wanted[name] == 0 {
				delete(wanted, name)
			}
		}
		switch {
		case asked && len(ask) == mostAsked:
			return ask, true
		case asked:
			ask = append(ask, b)
		}
	}
	return ask, false
}

// NewVolumeOverview returns which claims are in none of the backups that were asked, by what their files say. Files
// that are missing in found are not known.
func NewVolumeOverview(
	of OverviewOf, asked []*velerov1.Backup, more bool, found map[types.UID]BackupVolumes,
) *VolumeOverview {
	doc := &VolumeOverview{Claims: len(of.Claims), Items: []VolumeProtection{}}
	namespaces := map[string][]*velerov1.Backup{}
	var names []string
	for _, claim := range of.Claims {
		names = append(names, claim.Namespace)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	has, leftOut := map[types.UID]map[types.NamespacedName]bool{}, map[types.UID]map[types.NamespacedName]string{}
	for _, b := range asked {
		in, _, _ := queue.NamespacesOf(&b.Spec, names)
		for _, name := range in {
			namespaces[name] = append(namespaces[name], b)
		}
		has[b.UID], leftOut[b.UID] = map[types.NamespacedName]bool{}, map[types.NamespacedName]string{}
		for i := range found[b.UID].Infos {
			v := &found[b.UID].Infos[i]
			claim := types.NamespacedName{Namespace: v.PVCNamespace, Name: v.PVCName}
			if !v.Skipped && v.BackupMethod != "" && v.Result != volumes.Unusable {
				has[b.UID][claim] = true
			} else {
				leftOut[b.UID][claim] = whyWithout(v)
			}
		}
		if _, known := found[b.UID]; !known {
			doc.Problem = "the files of backups about their volumes are still being read"
		} else if problem := found[b.UID].Problem; problem != "" {
			doc.Problem = fmt.Sprintf("what backup %s has of volumes is not known: %s", b.Name, layout.OneLine(problem))
		}
	}
	if more {
		doc.Problem = cmp.Or(doc.Problem, fmt.Sprintf("the files of %d backups were read, and there are more", len(asked)))
	}
	for _, claim := range of.Claims {
		state := VolumeProtection{Namespace: claim.Namespace, Claim: claim.Name, Known: !more,
			Why: "no backup since then has its namespace"}
		protected := false
		for _, b := range namespaces[claim.Namespace] {
			protected = protected || has[b.UID][claim]
			if volumes, known := found[b.UID]; !known || volumes.Problem != "" {
				state.Known = false
			}
			if state.Backup != "" {
				continue
			}
			state.Backup, state.Completed, state.Why = b.Name, b.Status.CompletionTimestamp, "the backup does not have it"
			if why, skipped := leftOut[b.UID][claim]; skipped {
				state.Why = why
			}
		}
		switch {
		case protected:
			continue
		case state.Known:
			doc.Unprotected++
		default:
			doc.Unknown++
			state.Why = "not known"
		}
		doc.Items = append(doc.Items, state)
	}
	slices.SortFunc(doc.Items, func(a, b VolumeProtection) int {
		return cmp.Or(-compareBool(a.Known, b.Known), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Claim, b.Claim))
	})
	return doc
}

// whyWithout returns why a backup has a volume without its data.
func whyWithout(v *volumes.VolumeInfo) string {
	switch {
	case v.Skipped:
		return "the backup has left it out: " + layout.OrNone(layout.OneLine(v.SkippedReason))
	case v.Result == volumes.Unusable:
		return "its data could not be backed up"
	default:
		return "the backup has the claim without its data"
	}
}

// VolumeTable returns the table of the volumes that are not protected.
func VolumeTable(items []VolumeProtection, now time.Time) layout.Table {
	t := layout.Table{Head: []string{"NAMESPACE", "CLAIM", "LAST BACKUP", "AGE", "WHY"}}
	for i := range items {
		v := &items[i]
		age := none
		if v.Completed != nil {
			age = layout.Ago(*v.Completed, now)
		}
		t.Rows = append(t.Rows, []string{v.Namespace, v.Claim, cmp.Or(v.Backup, none), age, v.Why})
	}
	return t
}
