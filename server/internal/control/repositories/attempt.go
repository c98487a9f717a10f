package repositories

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
	"github.com/cleat-dev/cleat/server/internal/spec/maintenance"
	"github.com/cleat-dev/cleat/versioning"
)

// Runner runs jobs that maintain repositories.
type Runner interface {
	// Start begins the job with a name, unless it has begun.
	Start(ctx context.Context, of *velerov1.BackupRepository, name string, how maintenance.Job) error
	// Attempts returns the jobs of a repository, the oldest first, those of other programs too.
	Attempts(ctx context.Context, of *velerov1.BackupRepository) ([]Attempt, error)
	// Result returns what an ended job has to say, for the status of the repository.
	Result(ctx context.Context, ended Attempt) (string, error)
	// Waits returns why a job that has not ended does not work yet; "" if it does.
	Waits(ctx context.Context, running Attempt) (string, error)
	// Remove removes a job and ends its work.
	Remove(ctx context.Context, of *velerov1.BackupRepository, a Attempt) error
}

// Attempt is one job.
type Attempt struct {
	Name   string
	Began  time.Time
	Ended  time.Time // zero if it runs
	Failed bool
	Why    string // it has failed, as far as the job knows
}

// Running reports whether the job has not ended.
func (a Attempt) Running() bool { return a.Ended.IsZero() }

// history is how many attempts the status of a repository has.
const history = 3

// maxMessage limits what a job says, in bytes.
const maxMessage = 2000

// record writes what is not recorded yet of the jobs that have ended, and removes the claim of such a job.
func (r *Controller) record(
	ctx context.Context, of *velerov1.BackupRepository, attempts []Attempt,
) (written bool, err error) {
	var fresh []velerov1.BackupRepositoryMaintenanceStatus
	claim, ended := run.MaintenanceOf(of), false
	for _, a := range attempts {
		if a.Running() {
			continue
		}
		ended = ended || claim != nil && claim.Job == a.Name
		if isRecorded(of.Status.RecentMaintenance, a) {
			continue
		}
		message, err := r.Runner.Result(ctx, a)
		if err != nil {
			return false, err
		}
		status := velerov1.BackupRepositoryMaintenanceStatus{
			Result:         velerov1.BackupRepositoryMaintenanceSucceeded,
			StartTimestamp: timestamp(a.Began), CompleteTimestamp: timestamp(a.Ended),
			Message: shorten.Text(message, maxMessage),
		}
		if a.Failed {
			status.Result = velerov1.BackupRepositoryMaintenanceFailed
		}
		fresh = append(fresh, status)
	}
	if len(fresh) == 0 && !ended {
		return false, nil
	}
	after := of.DeepCopy()
	if ended {
		_ = run.SetMaintenance(after, nil) // removes it
	}
	if last := len(fresh) - 1; last >= 0 && fresh[last].Result == velerov1.BackupRepositoryMaintenanceFailed &&
		of.Status.Phase == velerov1.BackupRepositoryPhaseReady {
		if err := r.Check(ctx, of); errors.Is(err, versioning.ErrNotFound) { // the next backup creates it again
			after.Status.Phase, after.Status.Message = velerov1.BackupRepositoryPhaseNotReady, err.Error()
		}
	}
	return true, r.add(ctx, of, after, fresh)
}

// isRecorded reports whether the status of a repository has an attempt, or only newer ones.
func isRecorded(recent []velerov1.BackupRepositoryMaintenanceStatus, a Attempt) bool {
	older := len(recent) >= history
	for _, known := range recent {
		at := known.StartTimestamp
		if at != nil && at.Time.Equal(a.Began.Truncate(time.Second)) {
			return true
		}
		older = older && at != nil && a.Began.Before(at.Time)
	}
	return older
}

// fail records that claimed maintenance has failed without a job that says so, and removes the claim.
func (r *Controller) fail(ctx context.Context, of *velerov1.BackupRepository, began time.Time, why string) error {
	after := of.DeepCopy()
	_ = run.SetMaintenance(after, nil) // removes it
	return r.add(ctx, of, after, []velerov1.BackupRepositoryMaintenanceStatus{{
		Result: velerov1.BackupRepositoryMaintenanceFailed, StartTimestamp: timestamp(began),
		CompleteTimestamp: timestamp(r.Now()), Message: shorten.Text(why, maxMessage),
	}})
}

// add writes attempts to the status of a repository, and tells users of them.
func (r *Controller) add(
	ctx context.Context, of, after *velerov1.BackupRepository, fresh []velerov1.BackupRepositoryMaintenanceStatus,
) error {
	recent := slices.Concat(after.Status.RecentMaintenance, fresh)
	slices.SortStableFunc(recent, func(a, b velerov1.BackupRepositoryMaintenanceStatus) int {
		if a.StartTimestamp == nil || b.StartTimestamp == nil {
			return cmp.Compare(b2i(a.StartTimestamp != nil), b2i(b.StartTimestamp != nil))
		}
		return a.StartTimestamp.Compare(b.StartTimestamp.Time)
	})
	after.Status.RecentMaintenance = recent[max(0, len(recent)-history):]
	for _, one := range fresh {
		last := after.Status.LastMaintenanceTime
		if one.Result == velerov1.BackupRepositoryMaintenanceSucceeded &&
			(last == nil || last.Before(one.CompleteTimestamp)) {
			after.Status.LastMaintenanceTime = one.CompleteTimestamp
		}
	}
	if err := r.write(ctx, of, after); err != nil {
		return err
	}
	delete(r.claimed, of.Name)
	for _, one := range fresh {
		took := one.CompleteTimestamp.Sub(one.StartTimestamp.Time)
		failed := one.Result == velerov1.BackupRepositoryMaintenanceFailed
		r.Metrics.RepositoryMaintained(of.Name, !failed, took)
		if failed {
			r.Log.Warn("the maintenance of a repository has failed", "repository", of.Name, "reason", one.Message)
			run.Warn(r.Events, of, "MaintenanceFailed", "Maintain", one.Message)
			continue
		}
		r.Log.Info("the repository is maintained", "repository", of.Name, "took", took.String(), "message", one.Message)
		if r.Events != nil {
			r.Events.Eventf(of, nil, corev1.EventTypeNormal, "Maintained", "Maintain", "the repository is maintained: %s",
				shorten.Text(one.Message, 900))
		}
	}
	return nil
}

func b2i(set bool) int {
	if set {
		return 1
	}
	return 0
}
