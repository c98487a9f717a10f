package metrics

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/rehearsal"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/spec/timetable"
)

// listTimeout bounds the time for which a scrape waits for the objects: the cache of a starting server is not filled
// yet.
const listTimeout = 5 * time.Second

// vector is a CounterVec, GaugeVec or HistogramVec.
type vector interface {
	prometheus.Collector
	DeletePartialMatch(labels prometheus.Labels) int
}

// existing holds the metrics that are computed from the existing objects, so that they survive a restart and end with
// their objects.
type existing struct {
	reader    client.Reader
	namespace string

	backups, restores, lastStatus, lastSuccess, items, itemErrors, locations *prometheus.Desc
	damaged, notVerified, unsigned, verified                                 *prometheus.Desc
	rehearsed, rehearsedAt, estimate, rehearsalInterval                      *prometheus.Desc
}

// set holds the objects that have time series, by the values of their labels.
type set struct{ schedules, backups, repositories map[string]bool }

func newExisting(reader client.Reader, namespace string) existing {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("velero_"+name, help, labels, nil)
	}
	own := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("cleat_"+name, help, []string{"schedule"}, nil)
	}
	return existing{
		reader: reader, namespace: namespace,
		backups:    desc("backup_total", "Backups that exist."),
		restores:   desc("restore_total", "Restores that exist."),
		lastStatus: desc("backup_last_status", "1 when the last backup ended Completed, 0 otherwise.", "schedule"),
		lastSuccess: desc("backup_last_successful_timestamp", "When the last Completed backup ended, in Unix seconds.",
			"schedule"),
		items:      desc("backup_items_total", "Items of the last backup.", "schedule"),
		itemErrors: desc("backup_items_errors", "Errors of the last backup.", "schedule"),
		rehearsed: prometheus.NewDesc("cleat_rehearsal_last_status",
			"1 when the last rehearsal of a backup has passed, 0 otherwise.", []string{"schedule"}, nil),
		rehearsedAt: prometheus.NewDesc("cleat_rehearsal_last_passed_timestamp",
			"When the last rehearsal that has passed ended, in Unix seconds.", []string{"schedule"}, nil),
		estimate: prometheus.NewDesc("cleat_rehearsal_restore_estimate_seconds",
			"How long a restore would take, by the last rehearsal.", []string{"schedule"}, nil),
		rehearsalInterval: prometheus.NewDesc("cleat_rehearsal_expected_interval_seconds",
			"Time between the next two rehearsals of a schedule.", []string{"schedule"}, nil),
		locations: desc("backup_location_status_gauge", "1 when the backup storage location is available, 0 otherwise.",
			"backup_location_name"),
		damaged:     own("backup_damaged", "Backups whose last verification has found damage."),
		notVerified: own("backup_verification_failed", "Backups whose last verification could not look at them."),
		unsigned:    own("backup_unsigned", "Backups whose last verification has found no valid signature."),
		verified: own("backup_oldest_verification_timestamp",
			"When the backup was verified whose last verification is the oldest, in Unix seconds."),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(all chan<- *prometheus.Desc) {
	for _, v := range m.vectors {
		v.Describe(all)
	}
	e := &m.existing
	for _, desc := range []*prometheus.Desc{e.backups, e.restores, e.lastStatus, e.lastSuccess, e.items, e.itemErrors,
		e.locations, e.damaged, e.notVerified, e.unsigned, e.verified, e.rehearsed, e.rehearsedAt, e.estimate,
		e.rehearsalInterval} {
		all <- desc
	}
}

// Collect implements prometheus.Collector. Without a filled cache, the metrics of what exists are absent.
func (m *Metrics) Collect(all chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
	defer cancel()
	found, err := m.existing.collect(ctx, all)
	for _, v := range m.vectors {
		if err != nil {
			v.Collect(all)
			continue
		}
		for _, gone := range sendExisting(v, found, all) {
			v.DeletePartialMatch(gone)
		}
	}
}

// sendExisting sends the time series of schedules and backups that exist, and returns the labels of the others.
func sendExisting(v vector, found set, all chan<- prometheus.Metric) (gone []prometheus.Labels) {
	series := make(chan prometheus.Metric)
	go func() {
		defer close(series)
		v.Collect(series)
	}()
	for metric := range series {
		if labels := found.lacks(metric); labels != nil {
			gone = append(gone, labels)
			continue
		}
		all <- metric
	}
	return gone
}

// lacks returns the labels of a time series whose object no longer exists, or nil if the object exists.
func (s set) lacks(metric prometheus.Metric) prometheus.Labels {
	var written dto.Metric
	if metric.Write(&written) != nil {
		return nil // the scrape will report the error
	}
	for _, label := range written.GetLabel() {
		exists := s.schedules
		switch label.GetName() {
		case "backupName":
			exists = s.backups
		case repositoryLabel:
			exists = s.repositories
		}
		if value := label.GetValue(); value != "" && !exists[value] {
			return prometheus.Labels{label.GetName(): value}
		}
	}
	return nil
}

// collect sends the metrics of the existing objects, and returns the existing schedules and backups.
func (e *existing) collect(ctx context.Context, all chan<- prometheus.Metric) (set, error) {
	found := set{schedules: map[string]bool{}, backups: map[string]bool{}, repositories: map[string]bool{}}
	var repositories velerov1.BackupRepositoryList
	var backups velerov1.BackupList
	var restores velerov1.RestoreList
	var schedules velerov1.ScheduleList
	var locations velerov1.BackupStorageLocationList
	for _, list := range []client.ObjectList{&backups, &restores, &schedules, &locations, &repositories} {
		if err := e.reader.List(ctx, list, client.InNamespace(e.namespace), client.UnsafeDisableDeepCopy); err != nil {
			return found, err
		}
	}
	send := func(desc *prometheus.Desc, value float64, labels ...string) {
		all <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for i := range repositories.Items {
		found.repositories[repositories.Items[i].Name] = true
	}
	for i := range schedules.Items {
		s := &schedules.Items[i]
		name := velerov1.ValidLabelValue(s.Name)
		found.schedules[name] = true
		if interval := rehearsalInterval(s, time.Now()); interval > 0 {
			send(e.rehearsalInterval, interval.Seconds(), name)
		}
	}
	count := 0
	for i := range restores.Items {
		if r := &restores.Items[i]; !velerov1.IsDryRun(r) && !velerov1.IsRehearsal(r) {
			count++
			found.schedules[scheduleOfRestore(r)] = true
		}
	}
	send(e.restores, float64(count))
	count = 0
	checked := verifications{}
	last, successes := map[string]*velerov1.Backup{}, map[string]int64{}
	rehearsed := map[string][]rehearsal.Summary{}
	for i := range backups.Items {
		b := &backups.Items[i]
		if velerov1.IsDryRun(b) {
			continue
		}
		count++
		schedule := scheduleOf(b)
		found.schedules[schedule], found.backups[b.Name] = true, true
		rehearsed[schedule] = append(rehearsed[schedule],
			rehearsal.ParseList(b.Annotations[velerov1.RehearsalsAnnotation])...)
		phase := run.SettledPhase(b)
		if !phase.Terminal() {
			continue
		}
		checked.add(schedule, b)
		if before := last[schedule]; before == nil || begun(before).Before(begun(b)) {
			last[schedule] = b
		}
		if phase == velerov1.BackupPhaseCompleted && b.Status.CompletionTimestamp != nil {
			successes[schedule] = max(successes[schedule], b.Status.CompletionTimestamp.Unix())
		}
	}
	send(e.backups, float64(count))
	for schedule, b := range last {
		send(e.lastStatus, number(run.SettledPhase(b) == velerov1.BackupPhaseCompleted), schedule)
		send(e.itemErrors, float64(b.Status.Errors), schedule)
		if b.Status.Progress != nil {
			send(e.items, float64(b.Status.Progress.TotalItems), schedule)
		}
	}
	for schedule, of := range checked {
		send(e.damaged, of.damaged, schedule)
		send(e.notVerified, of.failed, schedule)
		send(e.unsigned, of.unsigned, schedule)
		send(e.verified, float64(of.oldest), schedule)
	}
	for schedule, at := range successes {
		send(e.lastSuccess, float64(at), schedule)
	}
	for schedule, list := range rehearsed {
		e.sendRehearsals(list, func(desc *prometheus.Desc, value float64) { send(desc, value, schedule) })
	}
	for i := range locations.Items {
		if l := &locations.Items[i]; l.Status.Phase != "" {
			send(e.locations, number(l.Status.Phase == velerov1.BackupStorageLocationPhaseAvailable), l.Name)
		}
	}
	return found, nil
}

// rehearsalInterval returns the time between the next two rehearsals of a schedule, 0 for one without.
func rehearsalInterval(s *velerov1.Schedule, now time.Time) time.Duration {
	expression := s.Annotations[velerov1.RehearseAnnotation]
	if expression == "" || s.Spec.Paused {
		return 0
	}
	times, err := timetable.Parse(expression, now)
	if err != nil {
		return 0
	}
	next := times.Next(now)
	return times.Next(next).Sub(next)
}

// sendRehearsals sends the metrics of the rehearsals of the backups of a schedule.
func (e *existing) sendRehearsals(list []rehearsal.Summary, send func(desc *prometheus.Desc, value float64)) {
	list = slices.DeleteFunc(list, func(s rehearsal.Summary) bool { return s.Result == rehearsal.Cancelled })
	if len(list) == 0 {
		return
	}
	newest := func(a, b rehearsal.Summary) int { return a.Ended.Compare(b.Ended) }
	last := slices.MaxFunc(list, newest)
	send(e.rehearsed, number(last.Result == rehearsal.Passed))
	if last.Estimate > 0 {
		send(e.estimate, last.Estimate)
	}
	passed := slices.DeleteFunc(list, func(s rehearsal.Summary) bool { return s.Result != rehearsal.Passed })
	if len(passed) > 0 {
		send(e.rehearsedAt, float64(slices.MaxFunc(passed, newest).Ended.Unix()))
	}
}

// begun returns when a backup was started or, if it was never started, created.
func begun(b *velerov1.Backup) time.Time {
	if b.Status.StartTimestamp != nil {
		return b.Status.StartTimestamp.Time
	}
	return b.CreationTimestamp.Time
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// verifications count how the last verifications of backups have ended, by schedule. A backup that was never verified
// does not count.
type verifications map[string]*verified

type verified struct {
	damaged, failed, unsigned float64
	oldest                    int64
}

func (v verifications) add(schedule string, b *velerov1.Backup) {
	known, err := velerov1.VerificationOf(b)
	if err != nil || known == nil || known.Last == nil {
		return
	}
	of, ended := v[schedule], known.Deepest().Ended.Unix()
	if of == nil {
		of = &verified{oldest: ended}
		v[schedule] = of
	}
	of.oldest = min(of.oldest, ended)
	of.damaged += number(known.Standing().Outcome == velerov1.VerifiedDamaged)
	of.failed += number(known.Last.Outcome == velerov1.VerificationFailed)
	if known.Last.Outcome != velerov1.VerificationFailed && known.Last.Signature != velerov1.SignatureValid {
		of.unsigned++
	}
}
