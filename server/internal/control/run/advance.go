package run

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/kube/waits"
)

var (
	// ErrNotFound is returned for an object that was deleted, or replaced by another of the same name.
	ErrNotFound = errors.New("the object does not exist any more")

	// ErrPhaseChanged is returned for an object whose phase was changed by another client, or whose run was taken up by
	// another process.
	ErrPhaseChanged = errors.New("another client has changed the phase or taken up the run")
)

// Superseded reports whether err means that another client has made a write unnecessary: it has deleted the object,
// changed its phase, or taken up its run.
func Superseded(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrPhaseChanged)
}

// machine is the state machine of a custom resource.
type machine[T any] struct {
	phase func(*T) string
	state func(*T) any // spec and status
	check func(from, to *T) error
	// brief ends the writes if a webhook does not answer, instead of repeating them. The caller then has to try again,
	// and can process other objects in the meantime.
	brief bool
}

// resource is a pointer to a custom resource.
type resource[T any] interface {
	*T
	client.Object
	DeepCopy() *T
}

// AdvanceBackup moves a backup to the phase that change sets, by one conditional write, and updates b to the new
// state.
//
// If another client has changed the backup, but neither its phase nor its claim, change is applied to the newest
// state. Transient failures are repeated until ctx ends, except failures of webhooks. If the reply to a write was
// lost, the write is recognised by its content, including the claim: if two processes start the same backup, only one
// succeeds.
//
// The error is that of change or of the API server, ErrNotFound or ErrPhaseChanged. After an error, b must not be
// used.
func (c *Cluster) AdvanceBackup(ctx context.Context, b *velerov1.Backup, change func(*velerov1.Backup) error) error {
	return advance(ctx, c, b, change, machine[velerov1.Backup]{
		phase: func(b *velerov1.Backup) string { return string(BackupPhase(b)) },
		state: func(b *velerov1.Backup) any { return velerov1.Backup{Spec: b.Spec, Status: b.Status} },
		check: func(from, to *velerov1.Backup) error {
			return CheckBackupTransition(BackupPhase(from), BackupPhase(to))
		},
		brief: true,
	})
}

// AdvanceRestore moves a restore to the phase that change sets, as AdvanceBackup does.
func (c *Cluster) AdvanceRestore(ctx context.Context, r *velerov1.Restore, change func(*velerov1.Restore) error) error {
	return advance(ctx, c, r, change, machine[velerov1.Restore]{
		phase: func(r *velerov1.Restore) string { return string(RestorePhase(r)) },
		state: func(r *velerov1.Restore) any { return velerov1.Restore{Spec: r.Spec, Status: r.Status} },
		check: func(from, to *velerov1.Restore) error {
			return checkRestoreTransition(RestorePhase(from), RestorePhase(to))
		},
	})
}

// DropCreatedStatus removes the status, the claim, and the results of verifications and rehearsals that the creator of a
// backup or restore has written, if no server has worked on it. It is called before each change, so the first change
// counts, too. An object that was created after the end of its run, to represent the contents of a bucket, keeps them.
func DropCreatedStatus(object client.Object) {
	if !velerov1.IsAsCreated(object) {
		return
	}
	dryRun := velerov1.IsDryRun(object)
	switch o := object.(type) {
	case *velerov1.Backup:
		if dryRun || BackupPhase(o) == velerov1.BackupPhaseNew {
			o.Status = velerov1.BackupStatus{}
			dropClaim(o)
			delete(o.Annotations, velerov1.VerificationAnnotation)
			delete(o.Annotations, velerov1.RehearsalsAnnotation)
		}
	case *velerov1.Restore:
		if dryRun || RestorePhase(o) == velerov1.RestorePhaseNew {
			o.Status = velerov1.RestoreStatus{}
			dropClaim(o)
		}
	}
	object.SetGeneration(object.GetGeneration() + 1) // as the write does
}

// advance implements AdvanceBackup, AdvanceRestore and AdvanceDryRun.
func advance[T any, P resource[T]](ctx context.Context, c *Cluster, obj P, change func(*T) error, m machine[T]) error {
	backoff := kubeapi.Backoff()
	before := obj.DeepCopy()
	for {
		wanted := P(before).DeepCopy()
		DropCreatedStatus(P(wanted))
		if err := change(wanted); err != nil {
			return err
		}
		if err := m.check(before, wanted); err != nil {
			return err
		}
		if m.phase(wanted) != m.phase(before) || ClaimOf(P(wanted)) != ClaimOf(P(before)) {
			SetWaits(P(wanted), "") // of the phase or attempt that ends
		}
		after, done, err := patch[T, P](ctx, c, before, wanted, m, backoff)
		if err != nil {
			return err
		}
		if done {
			*obj = *after
			return nil
		}
		before = after
	}
}

// patch writes the difference between before and wanted and returns the new state. done is false if another client has
// changed the object, but neither its phase nor its claim.
func patch[T any, P resource[T]](
	ctx context.Context, c *Cluster, before, wanted *T, m machine[T], backoff *wait.Backoff,
) (after *T, done bool, err error) {
	difference := client.MergeFromWithOptions(P(before), client.MergeFromWithOptimisticLock{})
	var waiting waits.Retry
	defer waiting.End()
	for {
		after := P(wanted).DeepCopy()
		err := c.Patch(ctx, P(after), difference)
		if err == nil {
			return after, true, nil
		}
		if apierrors.IsConflict(err) {
			if err = c.Live.Get(ctx, client.ObjectKeyFromObject(P(before)), P(after)); err == nil {
				return compare[T, P](before, wanted, after, m)
			}
		}
		if apierrors.IsNotFound(err) {
			return nil, false, ErrNotFound
		}
		if !kubeapi.Transient(err) || m.brief && Refused(err) {
			return nil, false, err
		}
		waiting.Failed(ctx, "the API server to write the next phase", err)
		if err := kubeapi.Pause(ctx, backoff, err); err != nil {
			return nil, false, err
		}
	}
}

// compare decides how to go on if the write has found the state after instead of before.
func compare[T any, P resource[T]](before, wanted, after *T, m machine[T]) (*T, bool, error) {
	claim := ClaimOf(P(after))
	recognised := equality.Semantic.DeepEqual(m.state(after), m.state(wanted)) &&
		hasNotes(P(before).GetAnnotations(), P(wanted).GetAnnotations(), P(after).GetAnnotations())
	switch {
	case P(after).GetUID() != P(before).GetUID():
		return nil, false, ErrNotFound
	case recognised:
		return after, true, nil // it was written, but the reply was lost
	case claim == ClaimOf(P(before)) && m.phase(after) == m.phase(before):
		return after, false, nil
	default:
		return nil, false, ErrPhaseChanged
	}
}

// hasNotes reports whether the annotations after a write have all changes from before to wanted, the claim and the sums
// of files among them. What a run waits for is written by others too.
func hasNotes(before, wanted, after map[string]string) bool {
	for _, notes := range []map[string]string{before, wanted} {
		for key := range notes {
			old, was := before[key]
			want, is := wanted[key]
			found, there := after[key]
			changes := old != want || was != is
			if changes && (found != want || there != is) && key != velerov1.WaitsAnnotation {
				return false
			}
		}
	}
	return true
}
