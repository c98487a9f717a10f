package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/rehearsal"
)

// Metrics are the metrics of backups, deletions, restores, schedules, repositories and locations. All metrics except
// those of repositories and locations have the label schedule, which is empty for objects without a schedule. Metrics
// that must survive a restart are computed from the existing objects. A time series ends with its schedule, with the
// last backup and restore of the schedule, or with its repository. Methods of a nil *Metrics do nothing.
type Metrics struct {
	backupAttempts  *prometheus.CounterVec
	backupSuccesses *prometheus.CounterVec
	backupPartial   *prometheus.CounterVec
	backupFailures  *prometheus.CounterVec
	backupInvalids  *prometheus.CounterVec
	backupWarnings  *prometheus.CounterVec
	backupDurations *prometheus.HistogramVec
	backupArchive   *prometheus.GaugeVec

	deletionAttempts  *prometheus.CounterVec
	deletionSuccesses *prometheus.CounterVec
	deletionFailures  *prometheus.CounterVec

	snapshots    snapshotCounters // of VolumeSnapshotLocations
	csiSnapshots snapshotCounters // has the name of the backup as a label, too

	restoreAttempts  *prometheus.CounterVec
	restoreSuccesses *prometheus.CounterVec
	restorePartial   *prometheus.CounterVec
	restoreFailures  *prometheus.CounterVec
	restoreInvalids  *prometheus.CounterVec

	rehearsalSuccesses, rehearsalFailures *prometheus.CounterVec

	scheduleIntervals *prometheus.GaugeVec

	maintenanceSuccesses, maintenanceFailures *prometheus.CounterVec
	maintenanceDurations                      *prometheus.HistogramVec

	vectors  []vector
	existing existing
}

// New registers the metrics. In each scrape, the metrics of the existing objects in a namespace are computed with
// reader, which should read from a cache.
func New(registry prometheus.Registerer, reader client.Reader, namespace string) (*Metrics, error) {
	var all []vector
	counter := func(name, help string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "velero", Name: name, Help: help},
			[]string{"schedule"})
		all = append(all, c)
		return c
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "velero", Name: name, Help: help}, []string{"schedule"})
		all = append(all, g)
		return g
	}
	m := &Metrics{
		backupAttempts:  counter("backup_attempt_total", "Backups that were started."),
		backupSuccesses: counter("backup_success_total", "Backups that ended Completed."),
		backupPartial:   counter("backup_partial_failure_total", "Backups that ended PartiallyFailed."),
		backupFailures:  counter("backup_failure_total", "Backups that ended Failed."),
		backupInvalids:  counter("backup_validation_failure_total", "Backups that failed validation."),
		backupWarnings:  counter("backup_warning_total", "Backups that ended with warnings."),
		backupArchive:   gauge("backup_tarball_size_bytes", "Size of the archive of the last backup that was stored."),
		backupDurations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "velero", Name: "backup_duration_seconds", Help: "Time from the start to the end of a backup.",
			Buckets: []float64{1, 5, 15, 60, 300, 600, 900, 1800, 3600, 7200, 14400},
		}, []string{"schedule"}),
		deletionAttempts:  counter("backup_deletion_attempt_total", "Deletions of backups that were begun."),
		deletionSuccesses: counter("backup_deletion_success_total", "Backups that were deleted."),
		deletionFailures:  counter("backup_deletion_failure_total", "Deletions of backups that failed."),
		restoreAttempts:   counter("restore_attempt_total", "Restores that were started."),
		restoreSuccesses:  counter("restore_success_total", "Restores that ended Completed."),
		restorePartial:    counter("restore_partial_failure_total", "Restores that ended PartiallyFailed."),
		restoreFailures:   counter("restore_failed_total", "Restores that ended Failed."),
		restoreInvalids:   counter("restore_validation_failed_total", "Restores that failed validation."),
		scheduleIntervals: gauge("schedule_expected_interval_seconds", "Time between the next two backups of a schedule."),
	}
	rehearsals := func(name, help string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "cleat", Name: name, Help: help},
			[]string{"schedule"})
		all = append(all, c)
		return c
	}
	m.rehearsalSuccesses = rehearsals("rehearsal_success_total", "Rehearsals of backups that have passed.")
	m.rehearsalFailures = rehearsals("rehearsal_failure_total",
		"Rehearsals of backups that have failed or could not begin. Cancelled ones do not count.")
	snapshots := func(name, help string, labels ...string) (c snapshotCounters) {
		for kind, counter := range map[string]**prometheus.CounterVec{"attempt": &c.attempted, "success": &c.succeeded,
			"failure": &c.failed} {
			*counter = prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "velero", Name: name + "_" + kind + "_total",
				Help: help + ": " + kind + "."}, labels)
			all = append(all, *counter)
		}
		return c
	}
	m.snapshots = snapshots("volume_snapshot", "Snapshots of volumes", "schedule")
	m.csiSnapshots = snapshots("csi_snapshot", "CSI snapshots of volumes", "schedule", "backupName")
	repository := []string{repositoryLabel}
	m.maintenanceSuccesses = prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "velero",
		Name: "repo_maintenance_success_total", Help: "Maintenances of repositories that were successful."}, repository)
	m.maintenanceFailures = prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "velero",
		Name: "repo_maintenance_failure_total", Help: "Maintenances of repositories that have failed."}, repository)
	m.maintenanceDurations = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "velero", Name: "repo_maintenance_duration_seconds", Help: "Time that a maintenance of a repository took.",
		Buckets: []float64{1, 5, 15, 60, 300, 600, 900, 1800, 3600, 7200, 10800, 14400},
	}, repository)
	all = append(all, m.backupDurations, m.maintenanceSuccesses, m.maintenanceFailures, m.maintenanceDurations)
	m.vectors = all
	m.existing = newExisting(reader, namespace)
	if err := registry.Register(m); err != nil {
		return nil, err
	}
	return m, nil
}

// repositoryLabel is the label of metrics of repositories, which Velero has.
const repositoryLabel = "repository_name"

// snapshotCounters count snapshots of volumes.
type snapshotCounters struct{ attempted, succeeded, failed *prometheus.CounterVec }

func (c *snapshotCounters) add(attempted, succeeded int, labels ...string) {
	c.attempted.WithLabelValues(labels...).Add(float64(attempted))
	c.succeeded.WithLabelValues(labels...).Add(float64(succeeded))
	c.failed.WithLabelValues(labels...).Add(float64(max(0, attempted-succeeded)))
}

// scheduleOf returns the value of the label schedule in all metrics: the name of the schedule, shortened to the length
// of a label.
func scheduleOf(b *velerov1.Backup) string { return b.Labels[velerov1.ScheduleNameLabel] }

// scheduleOfRestore returns the value of the label schedule for a restore.
func scheduleOfRestore(r *velerov1.Restore) string {
	return velerov1.ValidLabelValue(r.Spec.ScheduleName)
}

// BackupStarted counts the start of a backup.
func (m *Metrics) BackupStarted(b *velerov1.Backup) {
	if m != nil {
		m.backupAttempts.WithLabelValues(scheduleOf(b)).Inc()
	}
}

// BackupInvalid counts a backup that failed validation.
func (m *Metrics) BackupInvalid(b *velerov1.Backup) {
	if m != nil {
		m.backupInvalids.WithLabelValues(scheduleOf(b)).Inc()
	}
}

// BackupRan counts a backup after its run, and its end if it is Failed.
func (m *Metrics) BackupRan(b *velerov1.Backup) {
	if m == nil {
		return
	}
	m.snapshots.add(b.Status.VolumeSnapshotsAttempted, b.Status.VolumeSnapshotsCompleted, scheduleOf(b))
	if b.Status.Warnings > 0 {
		m.backupWarnings.WithLabelValues(scheduleOf(b)).Inc()
	}
	if b.Status.Phase == velerov1.BackupPhaseFailed {
		m.BackupEnded(b)
	}
}

// BackupStored sets the size of the archive of a backup.
func (m *Metrics) BackupStored(b *velerov1.Backup, size int64) {
	if m != nil {
		m.backupArchive.WithLabelValues(scheduleOf(b)).Set(float64(size))
	}
}

// BackupEnded counts a backup in its final phase.
func (m *Metrics) BackupEnded(b *velerov1.Backup) {
	if m == nil {
		return
	}
	schedule := scheduleOf(b)
	switch b.Status.Phase {
	case velerov1.BackupPhaseCompleted:
		m.backupSuccesses.WithLabelValues(schedule).Inc()
	case velerov1.BackupPhasePartiallyFailed:
		m.backupPartial.WithLabelValues(schedule).Inc()
	default:
		m.backupFailures.WithLabelValues(schedule).Inc()
	}
	if attempted := b.Status.CSIVolumeSnapshotsAttempted; attempted > 0 {
		// otherwise there would be time series for each backup
		m.csiSnapshots.add(attempted, b.Status.CSIVolumeSnapshotsCompleted, schedule, b.Name)
	}
	if b.Status.StartTimestamp != nil && b.Status.CompletionTimestamp != nil {
		took := b.Status.CompletionTimestamp.Sub(b.Status.StartTimestamp.Time)
		m.backupDurations.WithLabelValues(schedule).Observe(float64(took / time.Second))
	}
}

// DeletionStarted counts the start of the deletion of a backup.
func (m *Metrics) DeletionStarted(b *velerov1.Backup) {
	if m != nil {
		m.deletionAttempts.WithLabelValues(scheduleOf(b)).Inc()
	}
}

// DeletionEnded counts the success or failure of the deletion of a backup.
func (m *Metrics) DeletionEnded(b *velerov1.Backup, err error) {
	switch {
	case m == nil:
	case err == nil:
		m.deletionSuccesses.WithLabelValues(scheduleOf(b)).Inc()
	default:
		m.deletionFailures.WithLabelValues(scheduleOf(b)).Inc()
	}
}

// RepositoryMaintained counts the maintenance of a repository.
func (m *Metrics) RepositoryMaintained(name string, succeeded bool, took time.Duration) {
	if m == nil {
		return
	}
	ended := m.maintenanceFailures
	if succeeded {
		ended = m.maintenanceSuccesses
	}
	ended.WithLabelValues(name).Inc()
	m.maintenanceDurations.WithLabelValues(name).Observe(took.Seconds())
}

// ScheduleSeen sets the time between the next two backups of a schedule, or 0 for a schedule that creates none.
func (m *Metrics) ScheduleSeen(name string, interval time.Duration) {
	name = velerov1.ValidLabelValue(name)
	switch {
	case m == nil:
	case interval <= 0:
		m.scheduleIntervals.DeleteLabelValues(name)
	default:
		m.scheduleIntervals.WithLabelValues(name).Set(interval.Seconds())
	}
}

// ScheduleDeleted removes the metrics of a schedule.
func (m *Metrics) ScheduleDeleted(name string) { m.ScheduleSeen(name, 0) }

// RestoreStarted counts the start of a restore.
func (m *Metrics) RestoreStarted(r *velerov1.Restore) {
	if m != nil && !velerov1.IsRehearsal(r) {
		m.restoreAttempts.WithLabelValues(scheduleOfRestore(r)).Inc()
	}
}

// RestoreInvalid counts a restore that failed validation.
func (m *Metrics) RestoreInvalid(r *velerov1.Restore) {
	if m != nil && !velerov1.IsRehearsal(r) {
		m.restoreInvalids.WithLabelValues(scheduleOfRestore(r)).Inc()
	}
}

// RestoreRan counts the end of a restore that is Failed.
func (m *Metrics) RestoreRan(r *velerov1.Restore) {
	if r.Status.Phase == velerov1.RestorePhaseFailed {
		m.RestoreEnded(r)
	}
}

// RestoreEnded counts a restore in its final phase.
func (m *Metrics) RestoreEnded(r *velerov1.Restore) {
	if m == nil || velerov1.IsRehearsal(r) {
		return
	}
	switch r.Status.Phase {
	case velerov1.RestorePhaseCompleted:
		m.restoreSuccesses.WithLabelValues(scheduleOfRestore(r)).Inc()
	case velerov1.RestorePhasePartiallyFailed:
		m.restorePartial.WithLabelValues(scheduleOfRestore(r)).Inc()
	default:
		m.restoreFailures.WithLabelValues(scheduleOfRestore(r)).Inc()
	}
}

// RehearsalEnded counts a rehearsal of a backup.
func (m *Metrics) RehearsalEnded(schedule string, result rehearsal.Result) {
	if m == nil {
		return
	}
	switch schedule = velerov1.ValidLabelValue(schedule); result {
	case rehearsal.Passed:
		m.rehearsalSuccesses.WithLabelValues(schedule).Inc()
	case rehearsal.Cancelled:
	default:
		m.rehearsalFailures.WithLabelValues(schedule).Inc()
	}
}
