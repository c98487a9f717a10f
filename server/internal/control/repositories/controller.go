package repositories

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/metrics"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/spec/maintenance"
)

// Controller has the repositories of BackupRepositories maintained. It must be called for one of them at a time.
type Controller struct {
	*run.Cluster
	Runner Runner
	// Mover returns an error if the server lacks a data mover, and whether nothing else may work with a repository while
	// the mover maintains it.
	Mover func(name string) (alone bool, err error)
	// Check returns an error unless the repository can be used.
	Check func(ctx context.Context, of *velerov1.BackupRepository) error

	Frequency time.Duration // of repositories that have none; 0 for that of their engine
	Settings  string        // name of the ConfigMap with the settings of repositories; empty for none
	Jobs      string        // name of the ConfigMap with the settings of jobs; empty for none
	AtOnce    int           // how many repositories are maintained at once
	StartTime time.Duration // within which a job has to begin its work
	// Patience is how long maintenance that is due and needs the repository alone waits for a moment in which no load is
	// moved, before loads wait for it, and then how long it waits for those that are moved.
	Patience time.Duration

	Metrics *metrics.Metrics
	Events  events.EventRecorder
	Log     hclog.Logger
	Now     func() time.Time

	claimed map[string]bool   // repositories that this process has claimed, which the cache may not have yet
	told    map[string]string // by repository: what was last said about it
}

const (
	// lookAgain is the time between two looks at what has no events.
	lookAgain = time.Minute
	// lookAtWork is the time between two looks at a job that runs, and at the loads for which claimed maintenance waits.
	lookAtWork = 5 * time.Second
	// checkAgain is the time between two looks at a repository that is NotReady.
	checkAgain = 5 * time.Minute
	// retryDelay is the time from a failure to the next attempt. It is doubled for each further failure.
	retryDelay = 5 * time.Minute
)

// Reconcile advances one repository.
func (r *Controller) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	of := new(velerov1.BackupRepository)
	err := r.Get(ctx, request.NamespacedName, of)
	if apierrors.IsNotFound(err) || err == nil && of.DeletionTimestamp != nil {
		delete(r.claimed, request.Name)
		delete(r.told, request.Name)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	after, err := r.step(ctx, of)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: time.Second}, nil // what the cache had is old
	}
	return ctrl.Result{RequeueAfter: after}, err
}

// step makes at most one write to a BackupRepository. It returns the time until the next look without an event.
func (r *Controller) step(ctx context.Context, of *velerov1.BackupRepository) (time.Duration, error) {
	if written, err := r.complete(ctx, of); written || err != nil {
		return 0, err
	}
	attempts, err := r.Runner.Attempts(ctx, of)
	if apierrors.IsForbidden(err) {
		r.tell(of, err.Error()+"; \"cleat install\" gives the server this right")
		return lookAgain, nil
	}
	if err != nil {
		return 0, err
	}
	if written, err := r.record(ctx, of, attempts); written || err != nil {
		return 0, err
	}
	claim := run.MaintenanceOf(of)
	if i := slices.IndexFunc(attempts, Attempt.Running); i >= 0 {
		return r.follow(ctx, of, claim, attempts[i])
	}
	if claim != nil {
		return r.begin(ctx, of, claim)
	}
	delete(r.claimed, of.Name)
	how, err := r.how(ctx, of)
	if err == nil {
		err = r.tidy(ctx, of, attempts, how.Keep)
	}
	if apierrors.IsNotFound(err) || errors.Is(err, errSettings) { // said when maintenance is due
		err = nil
	}
	if err != nil {
		return 0, err
	}
	return r.claim(ctx, of)
}

// complete sets what the creator of a BackupRepository leaves to the server.
func (r *Controller) complete(ctx context.Context, of *velerov1.BackupRepository) (written bool, err error) {
	after := of.DeepCopy()
	if of.Spec.MaintenanceFrequency.Duration <= 0 {
		after.Spec.MaintenanceFrequency.Duration, written = cmp.Or(max(r.Frequency, 0), frequencyOf(of)), true
	}
	if of.Spec.RepositoryConfig == nil && r.Settings != "" {
		settings, err := r.settings(ctx, of)
		if err != nil {
			r.tell(of, err.Error())
		} else if len(settings) > 0 {
			after.Spec.RepositoryConfig, written = settings, true
		}
	}
	if !written {
		return false, nil
	}
	return true, r.write(ctx, of, after)
}

// frequencyOf returns the time between two maintenances that suits an engine, which is Velero's.
func frequencyOf(of *velerov1.BackupRepository) time.Duration {
	if engineOf(of) == velerov1.RepositoryTypeKopia {
		return time.Hour
	}
	return 7 * 24 * time.Hour
}

func engineOf(of *velerov1.BackupRepository) velerov1.RepositoryType {
	return cmp.Or(of.Spec.RepositoryType, velerov1.RepositoryTypeKopia)
}

// write makes one conditional write.
func (r *Controller) write(ctx context.Context, before, after *velerov1.BackupRepository) error {
	return r.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// follow looks after maintenance that runs.
func (r *Controller) follow(
	ctx context.Context, of *velerov1.BackupRepository, claim *run.Maintenance, running Attempt,
) (time.Duration, error) {
	if claim == nil || claim.Job != running.Name {
		if r.Now().Sub(running.Began) > r.StartTime {
			r.tell(of, fmt.Sprintf("job %s maintains the repository; another one begins when it has ended",
				running.Name))
		}
		return lookAtWork, nil
	}
	if r.Now().Sub(running.Began) > r.StartTime {
		waits, err := r.Runner.Waits(ctx, running)
		if err != nil {
			return 0, err
		}
		if waits != "" {
			if err := r.Runner.Remove(ctx, of, running); err != nil {
				return 0, err
			}
			return 0, r.fail(ctx, of, claim.Since, fmt.Sprintf("job %s has not begun within %s: %s", running.Name, r.StartTime,
				waits))
		}
	}
	if claim.Alone && r.Now().Sub(claim.Renewed) >= lookAgain {
		if err := r.renew(ctx, of, claim); err != nil {
			return 0, err
		}
	}
	return lookAtWork, nil
}

// renew writes that a server looks after a claim.
func (r *Controller) renew(ctx context.Context, of *velerov1.BackupRepository, claim *run.Maintenance) error {
	after := of.DeepCopy()
	renewed := *claim
	renewed.Renewed = r.Now().UTC()
	if err := run.SetMaintenance(after, &renewed); err != nil {
		return err
	}
	err := r.write(ctx, of, after)
	if err == nil {
		*of = *after
	}
	return err
}

// claim claims the maintenance of a repository if it is due and possible.
func (r *Controller) claim(ctx context.Context, of *velerov1.BackupRepository) (time.Duration, error) {
	now := r.Now()
	phase := cmp.Or(of.Status.Phase, velerov1.BackupRepositoryPhaseNew)
	if phase == velerov1.BackupRepositoryPhaseNew {
		return 0, nil // whoever has created it opens it
	}
	dueAt := r.due(of)
	if now.Before(dueAt) && phase == velerov1.BackupRepositoryPhaseReady {
		return dueAt.Sub(now), nil
	}
	location, err := r.GetLocation(ctx, of.Spec.BackupStorageLocation)
	if err != nil && !errors.Is(err, run.ErrLocationNotFound) {
		return 0, err
	}
	alone, without := r.Mover(MoverOf(of))
	switch {
	case err != nil:
		r.tell(of, err.Error())
	case run.LocationProblem(location) != "":
		r.tell(of, run.LocationProblem(location))
	case run.ReadOnly(location):
		r.tell(of, fmt.Sprintf("backup storage location %s is read-only", location.Name))
	case without != nil:
		r.tell(of, fmt.Sprintf("the server has no data mover for it; add the plugin of %s to its plugin "+
			"directory: %v", MoverOf(of), without))
	case phase == velerov1.BackupRepositoryPhaseNotReady:
		return r.check(ctx, of)
	case r.others(ctx, of) >= r.AtOnce:
	default:
		return r.take(ctx, of, alone, now.Sub(dueAt))
	}
	return lookAgain, nil
}

// take claims the maintenance of a repository, unless it can wait for the loads that are being moved.
func (r *Controller) take(
	ctx context.Context, of *velerov1.BackupRepository, alone bool, late time.Duration,
) (time.Duration, error) {
	if alone && late < r.Patience {
		moved, err := r.moved(ctx, of)
		if err != nil {
			return 0, err
		}
		if moved != "" {
			r.tell(of, moved+" is being moved; the repository is maintained when no load of it is, and loads wait "+
				"for that after "+r.Patience.String())
			return lookAgain, nil
		}
	}
	now, after := r.Now().UTC(), of.DeepCopy()
	if err := run.SetMaintenance(after, &run.Maintenance{Job: jobName(of, now), Since: now, Renewed: now,
		Alone: alone}); err != nil {
		return 0, err
	}
	if err := r.write(ctx, of, after); err != nil {
		return 0, err
	}
	if r.claimed == nil {
		r.claimed = map[string]bool{}
	}
	r.claimed[of.Name] = true
	delete(r.told, of.Name)
	r.Log.Info("the repository is due for maintenance", "repository", of.Name, "alone", alone)
	return 0, nil // the event of the write follows
}

// due returns when a repository is to be maintained: its frequency after the last success, but not soon after failures.
func (r *Controller) due(of *velerov1.BackupRepository) time.Time {
	var at time.Time
	if last := of.Status.LastMaintenanceTime; last != nil {
		at = last.Add(of.Spec.MaintenanceFrequency.Duration)
	}
	delay := retryDelay
	for n, attempt := range slices.Backward(of.Status.RecentMaintenance) {
		failed := cmp.Or(attempt.CompleteTimestamp, attempt.StartTimestamp)
		if attempt.Result != velerov1.BackupRepositoryMaintenanceFailed || failed == nil {
			break
		}
		if n < len(of.Status.RecentMaintenance)-1 {
			delay *= 2
		}
	}
	if last := lastFailure(of); last != nil && last.Add(delay).After(at) {
		at = last.Add(delay)
	}
	return at
}

// lastFailure returns when the last attempt has failed, nil if it has not.
func lastFailure(of *velerov1.BackupRepository) *metav1.Time {
	recent := of.Status.RecentMaintenance
	if len(recent) == 0 || recent[len(recent)-1].Result != velerov1.BackupRepositoryMaintenanceFailed {
		return nil
	}
	return cmp.Or(recent[len(recent)-1].CompleteTimestamp, recent[len(recent)-1].StartTimestamp)
}

// others returns how many other repositories are being maintained.
func (r *Controller) others(ctx context.Context, of *velerov1.BackupRepository) int {
	claimed := map[string]bool{}
	for name := range r.claimed {
		claimed[name] = true
	}
	var list velerov1.BackupRepositoryList
	if err := r.List(ctx, &list, client.InNamespace(r.Namespace), client.UnsafeDisableDeepCopy); err == nil {
		for i := range list.Items {
			if run.MaintenanceOf(&list.Items[i]) != nil {
				claimed[list.Items[i].Name] = true
			}
		}
	}
	delete(claimed, of.Name)
	return len(claimed)
}

// check opens a repository that is NotReady, and records whether it can be used.
func (r *Controller) check(ctx context.Context, of *velerov1.BackupRepository) (time.Duration, error) {
	failed := r.Check(ctx, of)
	if ctx.Err() != nil {
		return 0, nil
	}
	after := of.DeepCopy()
	after.Status.Phase, after.Status.Message = velerov1.BackupRepositoryPhaseReady, ""
	if failed != nil {
		after.Status.Phase, after.Status.Message = velerov1.BackupRepositoryPhaseNotReady, failed.Error()
	}
	if after.Status.Phase == of.Status.Phase && after.Status.Message == of.Status.Message {
		return checkAgain, nil
	}
	return checkAgain, r.write(ctx, of, after)
}

// begin has claimed maintenance begin.
func (r *Controller) begin(
	ctx context.Context, of *velerov1.BackupRepository, claim *run.Maintenance,
) (time.Duration, error) {
	if alone, _ := r.Mover(MoverOf(of)); alone && !claim.Alone { // written by somebody else, or before an upgrade
		claim.Alone = true
		return 0, r.renew(ctx, of, claim)
	}
	if claim.Alone {
		moved, err := r.moved(ctx, of)
		switch {
		case err != nil:
			return 0, err
		case moved != "" && r.Now().Sub(claim.Since) > r.Patience:
			return 0, r.fail(ctx, of, claim.Since, fmt.Sprintf("%s was still being moved after %s; other loads have waited "+
				"meanwhile", moved, r.Patience))
		case moved != "" && r.Now().Sub(claim.Renewed) < lookAgain:
			return lookAtWork, nil
		case moved != "":
			return lookAtWork, r.renew(ctx, of, claim)
		}
	}
	how, err := r.how(ctx, of)
	if apierrors.IsNotFound(err) {
		r.Log.Warn("the ConfigMap of --repo-maintenance-job-configmap does not exist; jobs have no settings", "error", err)
		how, err = maintenance.DefaultJob(), nil
	}
	if errors.Is(err, errSettings) {
		return 0, r.fail(ctx, of, claim.Since, err.Error())
	}
	if err == nil {
		err = r.renew(ctx, of, claim) // fails unless the claim still is there
	}
	if err != nil {
		return 0, err
	}
	err = r.Runner.Start(ctx, of, claim.Job, how)
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) {
		return 0, r.fail(ctx, of, claim.Since, fmt.Sprintf("create job %s: %v", claim.Job, err))
	}
	return lookAtWork, err
}

// errSettings is the error of a ConfigMap that has a mistake.
var errSettings = errors.New("the settings of jobs are not valid")

// how returns the settings of the jobs of a repository.
func (r *Controller) how(ctx context.Context, of *velerov1.BackupRepository) (maintenance.Job, error) {
	if r.Jobs == "" {
		return maintenance.DefaultJob(), nil
	}
	var cm corev1.ConfigMap
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Jobs}, &cm); err != nil {
		return maintenance.DefaultJob(), err
	}
	spec := of.Spec
	spec.RepositoryType = engineOf(of)
	job, warnings, err := maintenance.ParseJob(&cm, &spec)
	if err != nil {
		return maintenance.DefaultJob(), fmt.Errorf("%w: %w", errSettings, err)
	}
	for _, warning := range warnings {
		r.Log.Warn(warning)
	}
	return job, nil
}

// settings returns the settings of a new repository.
func (r *Controller) settings(ctx context.Context, of *velerov1.BackupRepository) (map[string]string, error) {
	var cm corev1.ConfigMap
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: r.Settings}, &cm); err != nil {
		return nil, fmt.Errorf("read the ConfigMap of --backup-repository-configmap: %w", err)
	}
	return maintenance.ParseRepository(&cm, engineOf(of))
}

// tidy removes the oldest ended jobs of a repository.
func (r *Controller) tidy(ctx context.Context, of *velerov1.BackupRepository, attempts []Attempt, keep int) error {
	for _, old := range attempts[:max(0, len(attempts)-keep)] {
		if err := r.Runner.Remove(ctx, of, old); err != nil {
			return err
		}
	}
	return nil
}

// tell says once what keeps a repository from being maintained.
func (r *Controller) tell(of *velerov1.BackupRepository, text string) {
	if r.told[of.Name] == text {
		return
	}
	if r.told == nil {
		r.told = map[string]string{}
	}
	r.told[of.Name] = text
	r.Log.Warn("the repository is not maintained", "repository", of.Name, "reason", text)
	run.Warn(r.Events, of, "NotMaintained", "Maintain", text)
}

// timestamp returns a time as the API server stores it.
func timestamp(t time.Time) *metav1.Time { return run.Timestamp(t) }
