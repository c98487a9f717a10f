package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/engine/restore/object"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
	"github.com/cleat-dev/cleat/server/internal/kube/waits"
	"github.com/cleat-dev/cleat/server/internal/spec/enclosure"
	"github.com/cleat-dev/cleat/versioning/volumesnapshotter"
)

// originalNameAnnotation is the name in the backup of a renamed persistent volume.
const originalNameAnnotation = "velero.io/original-pv-name"

// restoreSnapshot makes a new volume from a snapshot for the persistent volume, unless that is in the cluster. If it
// is there and its claim is restored into another namespace, the claim gets a copy with another name. So it does in an
// enclosure. An error means that the persistent volume is not restored.
func (r *itemRun) restoreSnapshot(ctx context.Context, taken *volumes.Snapshot, mapped bool) error {
	name := r.obj.Name
	exists, err := r.volumeStays(ctx, name)
	if err != nil {
		return err
	}
	if isEnclosed := r.engine.enclose != nil; isEnclosed || exists && mapped {
		prefix := "velero-clone-"
		if isEnclosed {
			prefix = enclosure.VolumePrefix(string(r.engine.restore.UID))
		}
		// The name is the same in each attempt, so that no attempt makes a second copy.
		clone := prefix + uuid.NewSHA1(uuid.Nil, []byte(string(r.engine.restore.UID)+"/"+name)).String()
		if exists, err = r.volumeStays(ctx, clone); err != nil {
			return err
		}
		r.rename(clone)
	}
	if exists || r.engine.dry != nil {
		return nil
	}
	changed, err := r.newVolume(ctx, taken)
	if err != nil {
		return fmt.Errorf("make a volume of snapshot %s: %w", taken.Status.ProviderSnapshotID, err)
	}
	before := r.obj.Name
	if r.obj = changed; changed.Name != before { // by the plugin
		r.rename(changed.Name)
	}
	r.log.Info("made a volume of a snapshot", "snapshot", taken.Status.ProviderSnapshotID, "location", taken.Spec.Location,
		"volumeID", r.made.ID)
	return nil
}

// newVolume makes a volume with the plugin of the snapshot's location, unless a former attempt has. It returns the
// persistent volume that refers to it.
func (r *itemRun) newVolume(ctx context.Context, taken *volumes.Snapshot) (changed *object.Object, err error) {
	err = r.engine.pool.park(ctx, func() error {
		defer waits.Begin(ctx, "a volume of snapshot %s for %s", taken.Status.ProviderSnapshotID, r.id).End()
		plugin, err := r.engine.snapshots.Open(ctx, taken.Spec.Location)
		if err != nil {
			return err
		}
		if r.made, err = r.engine.snapshots.Records.Volume(ctx, r.engine.restore, r.entry.Name, taken); err != nil {
			return err
		}
		if r.made.Unknown {
			r.warn(fmt.Errorf("a server was stopped while it had a volume made for %s; if that exists, nothing refers to it: "+
				"look for one of snapshot %s, and delete it",
				r.id, taken.Status.ProviderSnapshotID))
		}
		if r.made.ID == "" {
			if err := r.makeVolume(ctx, plugin, taken); err != nil {
				return err
			}
		}
		raw, err := plugin.SetVolumeID(ctx, r.obj.Encode(), r.made.ID)
		if err == nil {
			changed, err = object.Decode(raw)
		}
		if err != nil {
			return fmt.Errorf("volume %s was made, and nothing refers to it: %w", r.made.ID, err)
		}
		return nil
	})
	return changed, err
}

func (r *itemRun) makeVolume(
	ctx context.Context, plugin volumesnapshotter.Snapshotter, taken *volumes.Snapshot,
) error {
	like := volumesnapshotter.Volume{Type: taken.Spec.VolumeType, Zone: taken.Spec.VolumeAZ}
	if taken.Spec.VolumeIOPS != nil {
		like.IOPS = *taken.Spec.VolumeIOPS
	}
	id, err := plugin.CreateVolumeFromSnapshot(ctx, taken.Status.ProviderSnapshotID, like)
	switch {
	case err == nil:
		return r.made.Made(ctx, id)
	case ctx.Err() != nil: // the next server uses the record
		return err
	case operation.LeavesDoubt(err):
		err = fmt.Errorf("%w (whether the volume was made is not known: look for one of this snapshot, and delete it)", err)
	}
	return errors.Join(err, r.made.Drop(ctx))
}

// dropRecord deletes the record of the volume that was made for the item, if there is one, because a persistent volume
// refers to the volume now.
func (r *itemRun) dropRecord(ctx context.Context) {
	if r.made == nil {
		return
	}
	if err := r.made.Drop(ctx); err != nil {
		r.log.Warn("a record stays until the restore is deleted", "error", err)
	}
}

// volumeStays reports whether the cluster has a persistent volume of that name. If the volume is being deleted, or
// will be because its claim was, volumeStays waits for its end.
func (r *itemRun) volumeStays(ctx context.Context, name string) (bool, error) {
	var until time.Time // zero until it waits
	to := target{gvr: volumesResource.WithVersion("v1")}
	for {
		reply, err := r.engine.api.Do(ctx, to.read(name, kubeapi.JSON))
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("get persistent volume %s: %w", name, err)
		}
		var live corev1.PersistentVolume
		if err := json.Unmarshal(reply.Body, &live); err != nil {
			return false, fmt.Errorf("decode persistent volume %s: %w", name, err)
		}
		released := live.Status.Phase == corev1.VolumeReleased &&
			live.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
		if live.DeletionTimestamp == nil && !released || r.engine.dry != nil {
			return true, nil
		}
		if until.IsZero() {
			until = r.engine.terminating.begin()
			defer r.engine.terminating.end()
			defer waits.Begin(ctx, "the end of persistent volume %s, which is being deleted, so that it can be restored",
				name).End()
		}
		if time.Now().After(until) {
			return false, fmt.Errorf("persistent volume %s is being deleted and still existed after %s, in which the restore "+
				"has waited for what is being deleted; complete its deletion and restore again", name,
				r.engine.options.TerminatingTimeout)
		}
		if err := r.engine.pause(ctx, r.engine.options.PollInterval); err != nil {
			return false, err
		}
	}
}

// rename sets the name of the persistent volume, by which its claim finds it.
func (r *itemRun) rename(name string) {
	r.obj.SetName(name)
	r.obj.SetAnnotation(originalNameAnnotation, r.entry.Name)
	r.engine.state.mu.Lock()
	defer r.engine.state.mu.Unlock()
	r.engine.state.renamed[r.entry.Name] = name
}

// renamed returns the name under which a persistent volume was restored.
func (e *engine) renamed(volume string) string {
	e.state.mu.Lock()
	defer e.state.mu.Unlock()
	if name, ok := e.state.renamed[volume]; ok {
		return name
	}
	return volume
}
