package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/status/layout"
	"github.com/cleat-dev/cleat/server/internal/spec/queue"
	"github.com/cleat-dev/cleat/server/internal/spec/timetable"
)

// Overview is the document about an installation: what is protected, and what is in trouble.
type Overview struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"` // of the server
	// Since is the age up to which a backup protects, "24h0m0s".
	Since       string          `json:"since"`
	Unprotected int             `json:"unprotected"` // namespaces without a Completed backup since then
	Namespaces  []Protection    `json:"namespaces"`  // the unprotected ones first
	Schedules   []ScheduleState `json:"schedules"`
	Running     int             `json:"running"` // backups, as in Queue
	Ready       int             `json:"ready"`
	Waiting     int             `json:"waiting"`
	Locations   []LocationState `json:"locations"`
	Trouble     []string        `json:"trouble,omitempty"`  // sentences
	Problems    []string        `json:"problems,omitempty"` // errors while the document was composed
}

// Protection is a namespace and its last Completed backup.
type Protection struct {
	Namespace string       `json:"namespace"`
	Protected bool         `json:"protected"`
	Backup    string       `json:"backup,omitempty"`
	Completed *metav1.Time `json:"completed,omitempty"`
	// Partly is whether the filters of that backup leave out a part of the namespace, or may do so.
	Partly bool `json:"partly,omitempty"`
}

// ScheduleState is a schedule with its last good backup.
type ScheduleState struct {
	Name     string       `json:"name"`
	Phase    string       `json:"phase"`
	Paused   bool         `json:"paused,omitempty"`
	Schedule string       `json:"schedule"`
	LastGood *metav1.Time `json:"lastGood,omitempty"` // end of the last Completed backup
	Backup   string       `json:"backup,omitempty"`
	Next     *metav1.Time `json:"next,omitempty"`     // absent if it is paused
	Interval string       `json:"interval,omitempty"` // to the run after the next one, "24h0m0s"
	// Late is whether the last good backup is older than two intervals.
	Late bool `json:"late,omitempty"`
}

// LocationState is a storage location.
type LocationState struct {
	Name      string       `json:"name"`
	Phase     string       `json:"phase"`
	Default   bool         `json:"default,omitempty"`
	Validated *metav1.Time `json:"lastValidated,omitempty"`
	Message   string       `json:"message,omitempty"`
}

// OverviewOf has what an overview is made of.
type OverviewOf struct {
	Namespace  string
	Since      time.Duration
	Namespaces []string // of the cluster
	Backups    []*velerov1.Backup
	Schedules  []*velerov1.Schedule
	Locations  []*velerov1.BackupStorageLocation
}

// NewOverview returns the overview of an installation.
func NewOverview(of OverviewOf, now time.Time) *Overview {
	line := queue.NewLine(of.Backups)
	doc := &Overview{
		APIVersion: APIVersion, Kind: "Overview", Namespace: of.Namespace, Since: of.Since.String(),
		Running: len(line.Running), Ready: len(line.Ready), Waiting: len(line.Queued),
		Schedules: []ScheduleState{}, Locations: []LocationState{},
	}
	good := completed(of.Backups)
	doc.Namespaces = protections(good, of.Namespaces, now.Add(-of.Since))
	for _, p := range doc.Namespaces {
		if !p.Protected {
			doc.Unprotected++
		}
	}
	lastGood := map[string]*velerov1.Backup{}
	for _, b := range good {
		if name := b.Labels[velerov1.ScheduleNameLabel]; name != "" && lastGood[name] == nil {
			lastGood[name] = b
		}
	}
	for _, s := range of.Schedules {
		state := newScheduleState(s, lastGood[velerov1.ValidLabelValue(s.Name)], now)
		doc.Schedules = append(doc.Schedules, state)
		doc.Trouble = append(doc.Trouble, state.trouble(s, now)...)
	}
	for _, l := range of.Locations {
		state := LocationState{Name: l.Name, Phase: cmp.Or(string(l.Status.Phase), "Unknown"), Default: l.Spec.Default,
			Validated: l.Status.LastValidationTime, Message: layout.OneLine(l.Status.Message)}
		doc.Locations = append(doc.Locations, state)
		if l.Status.Phase == velerov1.BackupStorageLocationPhaseUnavailable {
			doc.Trouble = append(doc.Trouble, fmt.Sprintf("Location %s is unavailable: %s", l.Name,
				layout.OrNone(state.Message)))
		}
	}
	return doc
}

// completed returns the Completed backups, the last one first.
func completed(backups []*velerov1.Backup) []*velerov1.Backup {
	good := slices.DeleteFunc(slices.Clone(backups), func(b *velerov1.Backup) bool {
		return b.Status.Phase != velerov1.BackupPhaseCompleted || b.Status.CompletionTimestamp == nil ||
			b.DeletionTimestamp != nil
	})
	slices.SortFunc(good, func(a, b *velerov1.Backup) int {
		return cmp.Or(b.Status.CompletionTimestamp.Compare(a.Status.CompletionTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return good
}

// protections returns the last of the good backups of each namespace, and whether it ended after since. A backup of the
// whole namespace counts more than one of a part of it.
func protections(good []*velerov1.Backup, namespaces []string, since time.Time) []Protection {
	found := make(map[string]*Protection, len(namespaces))
	for _, name := range namespaces {
		found[name] = &Protection{Namespace: name}
	}
	seen := map[string]bool{}
	for left := len(found); left > 0 && len(good) > 0; good = good[1:] {
		b := good[0]
		partly := leavesOut(&b.Spec)
		scope := fmt.Sprint(partly, b.Spec.IncludedNamespaces, b.Spec.ExcludedNamespaces)
		if seen[scope] { // a later one with the same namespaces
			continue
		}
		seen[scope] = true
		in, _, _ := queue.NamespacesOf(&b.Spec, namespaces)
		for _, name := range in {
			p := found[name]
			if p == nil || p.Backup != "" && (!p.Partly || partly) {
				continue
			}
			p.Backup, p.Completed, p.Partly = b.Name, b.Status.CompletionTimestamp, partly
			p.Protected = p.Completed.After(since)
			if !partly {
				left--
			}
		}
	}
	all := make([]Protection, 0, len(found))
	for _, p := range found {
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b Protection) int {
		return cmp.Or(compareBool(a.Protected, b.Protected), cmp.Compare(a.Namespace, b.Namespace))
	})
	return all
}

// leavesOut reports whether the filters of a backup leave out objects of its namespaces, or may do so. The server has
// every backup exclude the objects of snapshots, which is no filter of a user.
func leavesOut(spec *velerov1.BackupSpec) bool {
	everything := func(names []string) bool { return len(names) == 0 || slices.Contains(names, "*") }
	excludes := func(names []string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			return !strings.HasSuffix(name, ".snapshot.storage.k8s.io")
		})
	}
	return spec.LabelSelector != nil || len(spec.OrLabelSelectors) > 0 ||
		!everything(spec.IncludedResources) || !everything(spec.IncludedNamespaceScopedResources) ||
		excludes(spec.ExcludedResources) || excludes(spec.ExcludedNamespaceScopedResources)
}

// compareBool compares false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

func newScheduleState(s *velerov1.Schedule, good *velerov1.Backup, now time.Time) ScheduleState {
	state := ScheduleState{Name: s.Name, Phase: PhaseOrNew(string(s.Status.Phase)), Paused: s.Spec.Paused,
		Schedule: s.Spec.Schedule}
	if good != nil {
		state.LastGood, state.Backup = good.Status.CompletionTimestamp, good.Name
	}
	times, err := timetable.Parse(s.Spec.Schedule, now)
	if err != nil {
		return state
	}
	next := times.Next(now)
	interval := times.Next(next).Sub(next)
	state.Interval = interval.String()
	if !s.Spec.Paused {
		state.Next = &metav1.Time{Time: next}
	}
	since := s.CreationTimestamp.Time
	if state.LastGood != nil {
		since = state.LastGood.Time
	}
	state.Late = !s.Spec.Paused && interval > 0 && now.Sub(since) > 2*interval
	return state
}

// trouble returns what is wrong with a schedule.
func (s *ScheduleState) trouble(schedule *velerov1.Schedule, now time.Time) []string {
	switch {
	case schedule.Status.Phase == velerov1.SchedulePhaseFailedValidation:
		return []string{fmt.Sprintf("Schedule %s is not valid: %s", s.Name,
			layout.OneLine(strings.Join(schedule.Status.ValidationErrors, "; ")))}
	case s.Late && s.LastGood == nil:
		return []string{fmt.Sprintf("Schedule %s has made no good backup, although it is due every %s", s.Name, s.Interval)}
	case s.Late:
		return []string{fmt.Sprintf("Schedule %s has made its last good backup %s, although it is due every %s", s.Name,
			layout.Ago(*s.LastGood, now), s.Interval)}
	default:
		return nil
	}
}
