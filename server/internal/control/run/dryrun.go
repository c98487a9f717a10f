package run

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
)

// AdvanceDryRun changes a dry run of a backup or restore that has not ended, by one conditional write, and updates
// object to the new state. It returns ErrPhaseChanged if another process has ended it or taken it up. Otherwise it is
// like AdvanceBackup.
func AdvanceDryRun[T any, P resource[T]](ctx context.Context, c *Cluster, object P, change func(*T) error) error {
	return advance(ctx, c, object, change, dryRunMachine[T, P]())
}

// CarryOutDryRun begins and ends one dry run. begin claims it by AdvanceDryRun, and may end it. work carries it out
// and returns the resulting change of status, or nil if the dry run is left to another server. problems returns the
// texts in the status.
func CarryOutDryRun[T any, P resource[T]](
	c *Cluster, active *Run, object P, log hclog.Logger, begin func() error, work func() (end func(*T)),
	problems func() []string,
) error {
	switch err := begin(); {
	case Superseded(err):
		return nil
	case err != nil:
		return fmt.Errorf("begin the dry run: %w", err)
	case DryRunEnded(object):
		log.Warn("the dry run was not carried out", "errors", problems())
		return nil
	}
	end := work()
	if end == nil {
		log.Info("the dry run is left to the next server", "reason", context.Cause(active.Ctx))
		return nil
	}
	err := AdvanceDryRun(active.Final, c, object, func(object *T) error {
		end(object)
		return nil
	})
	if Superseded(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write the end of the dry run: %w", err)
	}
	log.Info("the dry run has ended", "result", object.GetAnnotations()[velerov1.DryRunAnnotation], "text", problems())
	return nil
}

// dryRunMachine returns the states of dry runs: the values of the annotation.
func dryRunMachine[T any, P resource[T]]() machine[T] {
	phase := func(o *T) string { return P(o).GetAnnotations()[velerov1.DryRunAnnotation] }
	return machine[T]{
		phase: phase,
		state: func(o *T) any { return phase(o) },
		check: func(from, _ *T) error {
			if phase(from) != velerov1.DryRunRequested {
				return ErrPhaseChanged
			}
			return nil
		},
	}
}

// ClaimDryRun claims a dry run for an attempt. It returns an error if all its attempts were made.
func (r *Run) ClaimDryRun(object client.Object) error {
	claim := r.Start()
	if ClaimOf(object).By != "" {
		var err error
		if claim, err = r.TakeUp(object); err != nil {
			return err
		}
	}
	claim.Set(object)
	return nil
}

// MustDryRun reports whether a dry run is to be carried out: it was requested, and no server has worked on the object.
func MustDryRun(object client.Object, phase string) bool {
	return object.GetAnnotations()[velerov1.DryRunAnnotation] == velerov1.DryRunRequested &&
		phase == string(velerov1.BackupPhaseFailedValidation)
}

// DryRunEnded reports whether a dry run has ended.
func DryRunEnded(object client.Object) bool {
	state := object.GetAnnotations()[velerov1.DryRunAnnotation]
	return state == velerov1.DryRunDone || state == velerov1.DryRunFailed
}

// ExpireDryRun deletes a dry run whose retention time since its end is over. It returns the time until then.
func (c *Cluster) ExpireDryRun(
	ctx context.Context, object client.Object, ended *metav1.Time, now time.Time,
) (left time.Duration, err error) {
	keep, _ := KeepDryRun(object) // the default for an invalid annotation; the end of the dry run names the error
	end := object.GetCreationTimestamp().Time
	if ended != nil {
		end = ended.Time
	}
	if left = end.Add(keep).Sub(now); left > 0 {
		return left, nil
	}
	return 0, client.IgnoreNotFound(c.Delete(ctx, object, client.Preconditions{UID: new(object.GetUID())}))
}

// KeepDryRun returns how long a dry run is kept after its end. An invalid annotation is an error.
func KeepDryRun(object client.Object) (time.Duration, error) {
	text := object.GetAnnotations()[velerov1.DryRunKeepAnnotation]
	if text == "" {
		return velerov1.DefaultDryRunKeep, nil
	}
	keep, err := time.ParseDuration(text)
	if err != nil || keep <= 0 {
		return velerov1.DefaultDryRunKeep, fmt.Errorf("annotation %s is %q, want a duration such as 1h",
			velerov1.DryRunKeepAnnotation, text)
	}
	return keep, nil
}
