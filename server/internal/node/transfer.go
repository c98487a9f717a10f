package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/node/hostpath"
	"github.com/cleat-dev/cleat/server/internal/node/signal"
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

// start moves the data of a load in the background, closes its volume, and then triggers a reconciliation of the load.
// If the agent stops before the end, the next process finds the load InProgress and ends it.
func (a *Agent) start(l *load, volume hostpath.Volume, t *transfer) {
	ctx, cancel := context.WithCancelCause(a.life)
	t.cancel = cancel
	go func() {
		defer cancel(nil)
		defer func() { _ = volume.Close() }()
		o := a.move(ctx, l, volume, t)
		if a.life.Err() != nil {
			return // no other load needs the slot, because the process ends
		}
		if a.slots.end(l.GetUID(), t, o) {
			a.wakeNext(ctx)
			return
		}
		a.slots.wake(l.name, l.Object)
	}()
}

// move moves the data of a load and returns how the load ends.
func (a *Agent) move(ctx context.Context, l *load, volume hostpath.Volume, t *transfer) outcome {
	o, err := a.call(ctx, l, volume, t)
	switch cause := context.Cause(ctx); {
	case err == nil:
		return o
	case errors.Is(cause, errCancelled):
		return outcome{phase: velerov1.LoadPhaseCanceled, message: "canceled while its data was moved"}
	default:
		return failed(err.Error())
	}
}

// call calls the mover to move the data.
func (a *Agent) call(ctx context.Context, l *load, volume hostpath.Volume, t *transfer) (outcome, error) {
	if l.restore && l.podLabel != "" && l.spec.snapshotID == "" { // of a volume that was empty
		return outcome{phase: velerov1.LoadPhaseCompleted}, nil
	}
	mover, err := a.Movers.Find(l.spec.mover, volume)
	if err != nil {
		return outcome{}, err
	}
	if err := a.awaitMaintenance(ctx, l, t, mover); err != nil {
		return outcome{}, err
	}
	report := func(p datamover.Progress) {
		t.done.Store(p.DoneBytes)
		t.total.Store(p.TotalBytes)
	}
	if l.restore {
		return a.restore(ctx, l, mover, volume, report)
	}
	repository, err := a.Repositories.Create(ctx, mover, l.spec.location, l.spec.repository)
	if err != nil {
		return outcome{}, err
	}
	snapshot, err := mover.Backup(ctx, datamover.Backup{
		Repository: repository, Key: string(l.GetUID()), Volume: datamover.Volume{Path: volume.Path, Block: volume.Block},
		Parent: a.parent(ctx, l), Source: l.spec.source, Tags: l.spec.tags, Settings: l.spec.settings,
	}, report)
	if err != nil {
		return outcome{}, err
	}
	a.warn(l, snapshot.Warnings)
	return outcome{phase: velerov1.LoadPhaseCompleted, bytes: snapshot.Bytes, backup: &stored{
		id: snapshot.SnapshotID, newBytes: snapshot.NewBytes, path: volume.Path,
	}}, nil
}

// restore calls the mover to restore the data of a volume.
func (a *Agent) restore(
	ctx context.Context, l *load, mover datamover.Mover, volume hostpath.Volume, report func(datamover.Progress),
) (outcome, error) {
	var restored datamover.Restored
	err := a.Repositories.Use(ctx, mover, l.spec.location, l.spec.repository,
		func(repository datamover.Repository) (err error) {
			restored, err = mover.Restore(ctx, datamover.Restore{
				Repository: repository, SnapshotID: l.spec.snapshotID, Volume: datamover.Volume{Path: volume.Path,
					Block: volume.Block}, Settings: l.spec.settings,
				Bytes: l.kind.spec(l.Object).bytes, // not the bytes of an annotation, which are the size of the volume
			}, report)
			return err
		})
	a.warn(l, restored.Warnings)
	if err == nil && l.podLabel == "" {
		err = signalRestored(l, volume)
	}
	return outcome{phase: velerov1.LoadPhaseCompleted, bytes: restored.Bytes}, err
}

// warn logs the warnings of a mover for a load.
func (a *Agent) warn(l *load, warnings []string) {
	for _, warning := range warnings {
		a.Log.Warn("warning of a data mover", "kind", l.name, "name", l.GetName(), "warning", warning)
	}
}

// parent returns the snapshot of the last backup of the same volume in the same location, or "".
func (a *Agent) parent(ctx context.Context, l *load) string {
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

// signalRestored lets the pod of a restored volume continue.
func signalRestored(l *load, volume hostpath.Volume) error {
	owner := metav1.GetControllerOf(l.Object)
	if owner == nil {
		return fmt.Errorf("%s %s belongs to no Restore, so the pod cannot be notified that its volume is restored", l.name,
			l.GetName())
	}
	return inside(volume, func(root *os.Root) error { return signal.Restored(root, string(owner.UID)) })
}

// signalFailed signals to a waiting pod on this node that the data of its volume is not restored. If that fails, the
// pod waits until its own timeout.
func (a *Agent) signalFailed(ctx context.Context, l *load, why string) {
	owner := metav1.GetControllerOf(l.Object)
	if !l.restore || l.podLabel != "" || owner == nil {
		return
	}
	volume, wait, err := a.exposed(ctx, l)
	if err != nil || wait != "" {
		return
	}
	defer func() { _ = volume.Close() }()
	if err := inside(volume,
		func(root *os.Root) error { return signal.Failed(root, string(owner.UID), why) }); err != nil {
		a.Log.Warn("could not notify the pod that its volume is not restored", "name", l.GetName(), "error", err)
	}
}
