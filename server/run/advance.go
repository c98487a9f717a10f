package run

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/kubeapi"
)

// Cluster is the API server as the controllers see it.
type Cluster struct {
	client.Client               // reads the server's namespace from the cache, writes through
	Live          client.Reader // reads from the API server
	Namespace     string        // the server's namespace
}

var (
	// errGone means that the object was deleted, or replaced by another of its name.
	ErrNotFound = errors.New("it is gone")

	// errMoved means that somebody else changed the phase of the object.
	ErrPhaseChanged = errors.New("somebody else changed its phase")
)

// machine is what advance must know about a kind of custom resource.
type machine[T any] struct {
	phase func(*T) string
	state func(*T) any // what only the server and the user's spec say
	check func(from, to *T) error
}

// resource is a pointer to a custom resource.
type resource[T any] interface {
	*T
	client.Object
	DeepCopy() *T
}

// advanceBackup moves a backup to the phase that change sets, by one write, and leaves the new
// state in b. See advance.
func (c *Cluster) AdvanceBackup(ctx context.Context, b *velerov1.Backup, change func(*velerov1.Backup) error) error {
	return advance(ctx, c, b, change, machine[velerov1.Backup]{
		phase: func(b *velerov1.Backup) string { return string(BackupPhase(b)) },
		state: func(b *velerov1.Backup) any { return velerov1.Backup{Spec: b.Spec, Status: b.Status} },
		check: func(from, to *velerov1.Backup) error {
			return CheckBackupTransition(BackupPhase(from), BackupPhase(to))
		},
	})
}

// advanceRestore moves a restore to the phase that change sets, by one write, and leaves the new
// state in r. See advance.
func (c *Cluster) AdvanceRestore(ctx context.Context, r *velerov1.Restore, change func(*velerov1.Restore) error) error {
	return advance(ctx, c, r, change, machine[velerov1.Restore]{
		phase: func(r *velerov1.Restore) string { return string(RestorePhase(r)) },
		state: func(r *velerov1.Restore) any { return velerov1.Restore{Spec: r.Spec, Status: r.Status} },
		check: func(from, to *velerov1.Restore) error {
			return checkRestoreTransition(RestorePhase(from), RestorePhase(to))
		},
	})
}

// advance writes a change of phase as a merge patch, on the condition that the object is still the
// one that was read. When it is not, but its phase is, the change is made again on the newest
// state; a write whose answer got lost is recognised by what it wrote. Failures that pass (refused
// connections, time-outs, 429, 5xx) are tried again until ctx ends.
//
// It answers errGone, errMoved, what change answered, or an error of the API server. Unless it
// answers nil, obj holds no state to go on with.
func advance[T any, P resource[T]](ctx context.Context, c *Cluster, obj P, change func(*T) error, m machine[T]) error {
	backoff := kubeapi.Backoff()
	before := obj.DeepCopy()
	for {
		wanted := P(before).DeepCopy()
		if err := change(wanted); err != nil {
			return err
		}
		if err := m.check(before, wanted); err != nil {
			return err
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

// patch writes the difference of before and wanted and returns the state after that. It is not
// done when somebody else changed the object since before, but not its phase.
func patch[T any, P resource[T]](ctx context.Context, c *Cluster, before, wanted *T, m machine[T], backoff *wait.Backoff) (after *T, done bool, err error) {
	difference := client.MergeFromWithOptions(P(before), client.MergeFromWithOptimisticLock{})
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
		if !kubeapi.Transient(err) {
			return nil, false, err
		}
		if err := kubeapi.Pause(ctx, backoff, err); err != nil {
			return nil, false, err
		}
	}
}

// compare judges the state that a write has met with instead of before.
func compare[T any, P resource[T]](before, wanted, after *T, m machine[T]) (*T, bool, error) {
	switch {
	case P(after).GetUID() != P(before).GetUID():
		return nil, false, ErrNotFound
	case m.phase(after) == m.phase(before):
		return after, false, nil
	case equality.Semantic.DeepEqual(m.state(after), m.state(wanted)):
		return after, true, nil // it was written, and the answer got lost
	default:
		return nil, false, ErrPhaseChanged
	}
}
