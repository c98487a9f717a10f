package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/nodeagents"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
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
	Volumes     *VolumeOverview `json:"volumes,omitempty"` // absent if the claims could not be listed
	Running     int             `json:"running"`           // backups, as in Queue
	Ready       int             `json:"ready"`
	Waiting     int             `json:"waiting"`
	Locations   []LocationState `json:"locations"`
	Trouble     []string        `json:"trouble,omitempty"` // sentences
	// Keys are the public keys whose signatures of backups are accepted.
	Keys     []serverreport.Key `json:"keys,omitempty"`
	Problems []string           `json:"problems,omitempty"` // errors while the document was composed
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
	Namespaces []string               // of the cluster
	Claims     []types.NamespacedName // that are bound
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

// MovesData reports whether schedules, or the last backups, have node agents move the data of CSI snapshots.
func (of *OverviewOf) MovesData(now time.Time) bool {
	moves := func(spec *velerov1.BackupSpec) bool {
		return spec.SnapshotMoveData != nil && *spec.SnapshotMoveData &&
			velerov1.IsBuiltInMover(velerov1.DataMoverFor(spec.DataMover, velerov1.RepositoryTypeKopia))
	}
	return slices.ContainsFunc(of.Schedules, func(s *velerov1.Schedule) bool {
		return !s.Spec.Paused && moves(&s.Spec.Template)
	}) || slices.ContainsFunc(of.Backups, func(b *velerov1.Backup) bool {
		return now.Sub(b.CreationTimestamp.Time) < of.Since && moves(&b.Spec)
	})
}

// AddAgents adds that no node agent is at work although backups need them. agents are their pods.
func (o *Overview) AddAgents(agents []corev1.Pod) {
	if why, _ := nodeagents.NotAtWork(agents, o.Namespace); why != "" {
		o.Trouble = append(o.Trouble, "The data of snapshots is not moved: "+why)
	}
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

// AddClaim adds a claim if it is bound.
func (of *OverviewOf) AddClaim(claim *corev1.PersistentVolumeClaim) {
	if claim.Status.Phase == corev1.ClaimBound {
		of.Claims = append(of.Claims, types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name})
	}
}

// AddServer adds what is wrong with the policies and plugins that a server reports, which may be nil.
func (o *Overview) AddServer(policies []serverreport.Policy, plugins *serverreport.PluginReport) {
	for i := range policies {
		p := &policies[i]
		if !p.Working() {
			o.Trouble = append(o.Trouble, fmt.Sprintf("Policy %s (%s) fails: %s", layout.OneLine(p.Plugin),
				layout.OneLine(p.Kind), layout.OneLine(p.Message)))
		}
	}
	if plugins == nil {
		return
	}
	for i := range plugins.Plugins {
		p := &plugins.Plugins[i]
		if p.Status == serverreport.Quarantined {
			o.Trouble = append(o.Trouble, fmt.Sprintf("Plugin %s is quarantined: %s",
				layout.OneLine(cmp.Or(p.Name, p.File)), layout.OneLine(p.Reason)))
		}
	}
}

// AddKeys adds the public keys of a server.
func (o *Overview) AddKeys(keys []serverreport.Key) {
	o.Keys = keys
	for _, key := range keys {
		if key.Problem != "" {
			o.Trouble = append(o.Trouble, "A key for signatures of backups cannot be used: "+layout.OneLine(key.Problem))
		}
	}
}

// ScheduleStateTable returns the table of schedules with their last good backups.
func ScheduleStateTable(schedules []ScheduleState) layout.Table {
	t := layout.Table{Head: []string{"NAME", "STATUS", "DUE", "LAST GOOD BACKUP", "NEXT RUN", "NOTE"}}
	for i := range schedules {
		s := &schedules[i]
		good, note := "never", ""
		if s.LastGood != nil {
			good = s.Backup + ", " + layout.FormatTime(s.LastGood)
		}
		switch {
		case s.Paused:
			note = "paused"
		case s.Late:
			note = "late"
		}
		t.Rows = append(t.Rows, []string{s.Name, s.Phase, layout.OneLine(s.Schedule), good, layout.TimeOr(s.Next, "none"),
			note})
	}
	return t
}

// Print writes the overview as text.
func (o *Overview) Print(w io.Writer, now time.Time) error {
	d := layout.NewDescription(w)
	for _, text := range slices.Concat(o.Trouble, o.Problems) {
		d.Line("%s", layout.OneLine(text))
	}
	d.Line("%s running, %d about to start, %d waiting.", layout.Count(o.Running, "backup"), o.Ready, o.Waiting)
	d.Line("%s of %d without a Completed backup in the last %s.", layout.Count(o.Unprotected, "namespace"),
		len(o.Namespaces), o.Since)
	if v := o.Volumes; v != nil {
		d.Line("%s of %d without one; of %d it is not known.", layout.Count(v.Unprotected, "volume"), v.Claims, v.Unknown)
		if v.Problem != "" {
			d.Line("%s", layout.OneLine(v.Problem))
		}
	}
	table := func(head string, t layout.Table) {
		if len(t.Rows) == 0 {
			return
		}
		var text strings.Builder
		_ = t.Print(&text) // to memory
		d.Gap()
		d.Section(head, func() { d.Text(text.String()) })
	}
	namespaces := layout.Table{Head: []string{"NAMESPACE", "LAST BACKUP", "AGE"}}
	for i := range o.Namespaces {
		p := &o.Namespaces[i]
		if p.Protected {
			continue
		}
		age := none
		if p.Completed != nil {
			age = layout.Ago(*p.Completed, now)
		}
		namespaces.Rows = append(namespaces.Rows, []string{p.Namespace, cmp.Or(p.Backup, none), age})
	}
	table("Namespaces without a backup", namespaces)
	if o.Volumes != nil {
		table("Volumes without a backup", VolumeTable(o.Volumes.Items, now))
	}
	table("Schedules", ScheduleStateTable(o.Schedules))
	locations := layout.Table{Head: []string{"NAME", "PHASE", "NOTE"}}
	for i := range o.Locations {
		l := &o.Locations[i]
		locations.Rows = append(locations.Rows, []string{l.Name, l.Phase, l.Message})
	}
	table("Locations", locations)
	return d.Err()
}
