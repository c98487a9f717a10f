package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/node/hostpath"
	"github.com/cleat-dev/cleat/server/internal/node/signal"
	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/datamover"
)

// progressPeriod is the shortest time between two writes of the progress of a load.
const progressPeriod = 2 * time.Second

var (
	errCancelled  = errors.New("the load was canceled")
	errDeleted    = errors.New("the load was deleted")
	errChanged    = errors.New("another client has changed the spec of the load")
	errSuperseded = errors.New("another client has ended the load")
)

// start moves the data of a load in the background, in a pod of its own if this agent makes pods, closes its volume,
// and then triggers a reconciliation of the load. If the agent stops before the end, the next process continues
// (resume).
func (a *Agent) start(l *load, from exposedVolume, t *transfer, again bool) {
	ctx, cancel := context.WithCancelCause(a.life)
	t.cancel = cancel
	go func() {
		defer cancel(nil)
		defer func() { _ = from.Close() }()
		move := a.moveHere
		if a.Pods != nil {
			move = a.moveInPod
		}
		o := move(ctx, l, from, t, again)
		if a.life.Err() != nil {
			return // no other load needs the slot, because the process ends
		}
		o.at = a.Now()
		if a.slots.end(l.GetUID(), t, o) {
			a.wakeNext(ctx)
			return
		}
		a.slots.wake(l.name, l.Object)
	}()
}

// moveHere has a child of this process move the data, and returns how the attempt ends.
func (a *Agent) moveHere(ctx context.Context, l *load, from exposedVolume, t *transfer, again bool) outcome {
	var o outcome
	err := a.awaitMaintenance(ctx, l, t)
	if err == nil {
		o, err = a.callPatiently(ctx, l, from.Volume, job{parent: a.parent(ctx, l), again: again}, t)
	}
	a.warn(l, o.warnings)
	lost, isLost := errors.AsType[*Lost](err)
	switch cause := context.Cause(ctx); {
	case err == nil:
		o.message = lossesOf(o.warnings)
		return o
	case errors.Is(cause, errCancelled):
		return canceledMoving()
	case isLost:
		return a.lost(err.Error(), lost.Memory)
	default:
		return failed(err.Error())
	}
}

func canceledMoving() outcome {
	return outcome{phase: velerov1.LoadPhaseCanceled, message: "canceled while its data was moved"}
}

// lost returns the outcome of an attempt whose mover has ended before it answered.
func (a *Agent) lost(why string, memory bool) outcome {
	switch {
	case memory && a.Pods != nil:
		why += "; " + a.Pods.Remedy()
	case memory:
		why += "; raise the memory limit of the node agent"
	}
	return outcome{lost: true, memory: memory, message: why}
}

// interrupted returns the outcome of an attempt that was ended from outside: by a drain, the end of the agent, or a user.
func interrupted(why string) outcome { return outcome{lost: true, interrupted: true, message: why} }

// job is what a mover needs to know in addition to the load.
type job struct {
	parent string // snapshot of an earlier state of the volume; empty for none
	again  bool   // there may have been an attempt before
}

// call calls the mover to move the data. If it fails, the outcome has only the warnings.
func (a *Agent) call(
	ctx context.Context, l *load, from hostpath.Volume, of job, report func(datamover.Progress),
) (outcome, error) {
	if l.restore && l.podLabel != "" && l.spec.snapshotID == "" { // of a volume that was empty
		return outcome{phase: velerov1.LoadPhaseCompleted}, nil
	}
	mover, err := a.Movers.Find(l.spec.mover, from)
	if err != nil {
		return outcome{}, err
	}
	if l.restore {
		return a.restore(ctx, l, mover, from, report)
	}
	var snapshot datamover.Snapshot
	var warnings []string
	for gone := false; ; gone = true {
		repository, anew, err := a.Repositories.Create(ctx, mover, l.spec.location, l.spec.repository, gone)
		if err != nil {
			return outcome{}, err
		}
		if anew != "" {
			warnings = append(warnings, anew)
		}
		snapshot, err = mover.Backup(ctx, datamover.Backup{
			Repository: repository, Key: string(l.GetUID()), Volume: datamover.Volume{Path: from.Path, Block: from.Block},
			Parent: of.parent, Source: l.spec.source, Tags: l.spec.tags, Settings: l.spec.settings, Again: of.again,
		}, report)
		if err == nil {
			break
		}
		if gone || !errors.Is(err, versioning.ErrNotFound) {
			return outcome{}, err
		}
	}
	return outcome{phase: velerov1.LoadPhaseCompleted, bytes: snapshot.Bytes, backup: &stored{
		id: snapshot.SnapshotID, newBytes: snapshot.NewBytes, path: from.Path,
	}, warnings: append(warnings, snapshot.Warnings...)}, nil
}

// restore calls the mover to restore the data of a volume.
func (a *Agent) restore(
	ctx context.Context, l *load, mover datamover.Mover, to hostpath.Volume, report func(datamover.Progress),
) (outcome, error) {
	var restored datamover.Restored
	err := a.Repositories.Use(ctx, mover, l.spec.location, l.spec.repository,
		func(repository datamover.Repository) (err error) {
			restored, err = mover.Restore(ctx, datamover.Restore{
				Repository: repository, SnapshotID: l.spec.snapshotID, Volume: datamover.Volume{Path: to.Path,
					Block: to.Block}, Settings: l.spec.settings,
				Bytes: l.kind.spec(l.Object).bytes, // not the bytes of an annotation, which are the size of the volume
			}, report)
			return err
		})
	return outcome{phase: velerov1.LoadPhaseCompleted, bytes: restored.Bytes, warnings: restored.Warnings}, err
}

// mostLosses is how many bytes of warnings the status of a load has.
const mostLosses = 4000

// lossesOf returns the status.message of a load that is Completed: its warnings, one in each line.
func lossesOf(warnings []string) string {
	text := strings.Join(warnings, "\n")
	for n := len(warnings) - 1; len(text) > mostLosses && n >= 0; n-- {
		text = strings.Join(append(slices.Clone(warnings[:n]), fmt.Sprintf("%d more warnings", len(warnings)-n)), "\n")
	}
	return text
}

// warn logs the warnings of a mover for a load.
func (a *Agent) warn(l *load, warnings []string) {
	for _, warning := range warnings {
		a.Log.Warn("warning of a data mover", "kind", l.name, "name", l.GetName(), "warning", warning)
	}
}

// parent returns the snapshot of the last backup of the same volume in the same location, or "". A restore has none.
func (a *Agent) parent(ctx context.Context, l *load) string {
	if l.restore {
		return ""
	}
	volume := volumeOf(l)
	loads, err := a.loads(ctx, l.kind)
	if err != nil || volume == "" {
		return "" // then all data is read
	}
	loads = slices.DeleteFunc(loads, func(other *load) bool {
		return other.phase() != velerov1.LoadPhaseCompleted || other.spec.location != l.spec.location ||
			other.spec.mover != l.spec.mover || volumeOf(other) != volume
	})
	slices.SortFunc(loads, func(a, b *load) int { return b.compare(a) })
	for _, newest := range loads {
		if snapshot := a.storedBy(ctx, newest); snapshot != "" {
			return snapshot
		}
	}
	return ""
}

// volumeOf returns a key that all backups of one volume share: the UID of its claim, or the UID of the pod and the
// name of the volume.
func volumeOf(l *load) string {
	if claim := l.GetLabels()[velerov1.PVCUIDLabel]; claim != "" {
		return claim
	}
	if l.spec.pod.UID == "" {
		return ""
	}
	return string(l.spec.pod.UID) + "/" + l.spec.volume
}

// inside calls do with the directory of a volume. Links do not lead out of it.
func inside(volume hostpath.Volume, do func(root *os.Root) error) error {
	root, err := volume.Root()
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // a directory
	return do(root)
}

// signalRestored lets the pod of a restored volume continue, unless it was done before. It does nothing for other
// loads, for a pod that does not exist any more, and for one to which signals reports the end of all of its loads.
func (a *Agent) signalRestored(ctx context.Context, l *load) error {
	owner, marks, err := a.marks(ctx, l)
	if err != nil || !marks {
		return err
	}
	if owner == "" {
		return fmt.Errorf("%s %s belongs to no Restore, so the pod cannot be notified that its volume is restored", l.name,
			l.GetName())
	}
	if done, err := a.isSignalled(ctx, l); err != nil || done {
		return err
	}
	return a.changeMarks(ctx, l, func(root *os.Root) error { return signal.Restored(root, owner) })
}

// marks reports whether the volume of a load is to be marked for the pod that waits for it, and returns the UID of the
// Restore, "" if there is none.
func (a *Agent) marks(ctx context.Context, l *load) (restore string, marks bool, err error) {
	if !l.restore || l.podLabel != "" {
		return "", false, nil
	}
	if owner := metav1.GetControllerOf(l.Object); owner != nil {
		restore = string(owner.UID)
	}
	pod, err := a.pod(ctx, l)
	if err != nil || pod == nil {
		return restore, restore == "", err
	}
	_, reported := waitingIn(pod)
	return restore, !reported, nil
}

// changeMarks changes the marks in the volume of a load, if that is accessible.
func (a *Agent) changeMarks(ctx context.Context, l *load, change func(*os.Root) error) error {
	volume, wait, err := a.exposed(ctx, l)
	if err != nil || wait != "" {
		return err
	}
	defer func() { _ = volume.Close() }() // a directory
	return inside(volume.Volume, change)
}

// isSignalled reports whether the pod of a restored volume knows that the volume is restored, or can read it.
func (a *Agent) isSignalled(ctx context.Context, l *load) (is bool, err error) {
	owner := metav1.GetControllerOf(l.Object)
	pod, err := a.pod(ctx, l)
	if err != nil || pod == nil || owner == nil {
		return false, err
	}
	if seen(pod) == string(owner.UID) {
		return true, nil
	}
	if _, reported := waitingIn(pod); reported { // after the end of the load
		return false, nil
	}
	err = a.changeMarks(ctx, l, func(root *os.Root) error {
		is = signal.IsRestored(root, string(owner.UID))
		return nil
	})
	return is, err
}

// signalFailed signals to a waiting pod on this node that the data of its volume is not restored. If that fails, the
// pod waits until its own timeout.
func (a *Agent) signalFailed(ctx context.Context, l *load, why string) {
	owner, marks, err := a.marks(ctx, l)
	if err == nil && marks && owner != "" {
		err = a.changeMarks(ctx, l, func(root *os.Root) error {
			return signal.Failed(root, owner, notRestored(l.spec.volume, why))
		})
	}
	if err != nil {
		a.Log.Warn("could not notify the pod that its volume is not restored", "name", l.GetName(), "error", err)
	}
}
