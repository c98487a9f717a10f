package volumes

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/go-hclog"
	"k8s.io/apimachinery/pkg/types"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
)

// Leftovers are the snapshots that a run of a backup has on record.
type Leftovers struct {
	Backup          types.NamespacedName
	StorageLocation string // of the backup

	uid    types.UID
	csi    *Record // nil if there is none
	others []*Record
}

// Leftovers returns what the run of the backup with a UID has on record, nil if there is nothing.
func (h *Hub) Leftovers(ctx context.Context, backup types.UID, log hclog.Logger) (*Leftovers, error) {
	records, damaged, err := h.Records.Of(ctx, backup)
	if err != nil {
		return nil, err
	}
	for _, err := range damaged {
		log.Error("the record of a snapshot cannot be read; look for a snapshot that no backup has, then delete the "+
			"ConfigMap", "error", err)
	}
	if len(records) == 0 {
		return nil, nil
	}
	left := &Leftovers{Backup: records[0].Backup, StorageLocation: records[0].StorageLocation, uid: backup}
	for _, record := range records {
		if record.CSI {
			left.csi = record
		} else {
			left.others = append(left.others, record)
		}
	}
	return left, nil
}

// HandOver deletes the snapshots that a run has left and the stored backup does not have, and then their records. The
// run has ended. The CSI snapshots of a backup that has not ended itself stay on record: they are waited for, and kept
// when it ends. HandOver opens the bucket only if it has something to do.
func (h *Hub) HandOver(
	ctx context.Context, left *Leftovers, ended bool, open func(context.Context) (*store.Store, error), log hclog.Logger,
) error {
	csi := left.csi
	if !ended {
		csi = nil
	}
	if csi == nil && len(left.others) == 0 {
		return nil
	}
	objects, err := open(ctx)
	if err != nil {
		return err
	}
	var failed []error
	if csi != nil {
		failed = append(failed, h.handOverCSI(ctx, csi, left.uid, objects))
	}
	if len(left.others) > 0 {
		stored, err := storedSnapshots(ctx, left, objects)
		if err != nil {
			return errors.Join(append(failed, err)...)
		}
		for _, record := range left.others {
			failed = append(failed, h.handOver(ctx, record, stored, log))
		}
	}
	return errors.Join(failed...)
}

// handOverCSI removes the CSI snapshots of a backup that has ended. If the backup was completed, only the objects that
// its finalizer may have left are deleted, and the snapshots stay. handOverCSI then drops the record.
func (h *Hub) handOverCSI(ctx context.Context, record *Record, backup types.UID, objects *store.Store) error {
	var stored velerov1.Backup
	metadata, err := objects.BackupMetadata(ctx, record.Backup.Name)
	if err == nil {
		err = store.DecodeMetadata(metadata, &stored)
	}
	damaged := errors.Is(err, store.ErrDamaged) // it may have been complete
	if err != nil && !errors.Is(err, store.ErrNotFound) && !damaged {
		return err
	}
	complete := damaged || stored.UID == backup && (stored.Status.Phase == velerov1.BackupPhaseCompleted ||
		stored.Status.Phase == velerov1.BackupPhasePartiallyFailed)
	settle := h.CSI.Remove
	if complete {
		settle = h.CSI.Keep
	}
	if err := settle(ctx, backup); err != nil {
		return fmt.Errorf("the CSI snapshots of backup %s: %w", record.Backup.Name, err)
	}
	return record.Drop(ctx)
}

// storedSnapshots returns the ids of the snapshots that the stored backup has.
func storedSnapshots(ctx context.Context, left *Leftovers, objects *store.Store) (map[string]bool, error) {
	name := left.Backup.Name
	switch found, err := objects.BackupUID(ctx, name); {
	case errors.Is(err, store.ErrNotFound), err == nil && found != left.uid:
		return nil, nil
	case err != nil && !errors.Is(err, store.ErrDamaged): // a damaged file may be that of the backup
		return nil, err
	}
	list, err := store.DecodeList[[]*Snapshot](ctx, objects, velerov1.DownloadTargetKindBackupVolumeSnapshots, name)
	if err != nil {
		return nil, err
	}
	ids := map[string]bool{}
	for _, s := range list {
		ids[s.Status.ProviderSnapshotID] = true
	}
	return ids, nil
}

// handOver deletes the snapshot of a record, unless the backup has it, and then the record.
func (h *Hub) handOver(ctx context.Context, record *Record, stored map[string]bool, log hclog.Logger) error {
	s := &record.Snapshot
	id := s.Status.ProviderSnapshotID
	log = log.With("backup", record.Backup.Name, "persistentVolume", s.Spec.PersistentVolumeName, "location",
		s.Spec.Location)
	switch {
	case stored[id] && id != "":
	case id == "":
		log.Warn("a server was stopped while it requested a snapshot; if the snapshot exists, no backup has it: look for "+
			"it by its tags, and delete it",
			"volumeID", s.Spec.ProviderVolumeID, "tags", fmt.Sprintf("velero.io/backup=%s, velero.io/pv=%s", s.Spec.BackupName,
				s.Spec.PersistentVolumeName))
	default:
		if err := h.deleteSnapshot(ctx, s); err != nil {
			return fmt.Errorf("delete snapshot %s, which no backup has: %w", id, err)
		}
		log.Info("deleted a snapshot that no backup has", "snapshot", id)
	}
	return record.Drop(ctx)
}

// deleteSnapshot has the plugin of its location delete a snapshot.
func (h *Hub) deleteSnapshot(ctx context.Context, s *Snapshot) error {
	plugin, err := h.Open(ctx, s.Spec.Location)
	if err != nil {
		return err
	}
	return plugin.DeleteSnapshot(ctx, s.Status.ProviderSnapshotID)
}
