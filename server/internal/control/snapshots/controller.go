package snapshots

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/go-hclog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
)

// Controller deletes the snapshots that a run has taken and its backup does not have, and the records of all snapshots
// of the run, when the run has ended. A request names the UID of a backup.
type Controller struct {
	*run.Cluster
	Stores       run.Stores
	Snapshotters run.Snapshotters
	Records      *volumes.Records
	// VolumeSnapshots are those of CSI volumes.
	VolumeSnapshots volumes.VolumeSnapshots
	Log             hclog.Logger
}

// Setup adds the watches of the controller to b: of records, and of the backups that they belong to.
func (r *Controller) Setup(b *ctrl.Builder) *ctrl.Builder {
	ofRecord := func(_ context.Context, object client.Object) []ctrl.Request {
		return request(object.GetLabels()[volumes.OwnerLabel])
	}
	ofBackup := func(_ context.Context, object client.Object) []ctrl.Request { return request(string(object.GetUID())) }
	return b.WatchesMetadata(metadata("ConfigMap"), handler.EnqueueRequestsFromMapFunc(ofRecord)).
		Watches(&velerov1.Backup{}, handler.EnqueueRequestsFromMapFunc(ofBackup),
			builder.WithPredicates(run.UnsettledBackups()))
}

func request(uid string) []ctrl.Request {
	if uid == "" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Name: uid}}}
}

func metadata(kind string) *metav1.PartialObjectMetadata {
	object := new(metav1.PartialObjectMetadata)
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return object
}

// Reconcile looks after the records of one backup, when its run has ended. An error leads to another attempt.
func (r *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	uid := types.UID(req.Name)
	if known, err := r.hasRecords(ctx, uid); err != nil || !known {
		return ctrl.Result{}, err
	}
	records, damaged, err := r.Records.Of(ctx, uid)
	if err != nil {
		return ctrl.Result{}, err
	}
	for _, err := range damaged {
		r.Log.Error("the record of a snapshot cannot be read; look for a snapshot that no backup has, then delete the "+
			"ConfigMap", "error", err)
	}
	if len(records) == 0 {
		return ctrl.Result{}, nil
	}
	phase, err := r.phase(ctx, records[0].Backup, uid)
	if err != nil || phase == velerov1.BackupPhaseInProgress {
		return ctrl.Result{}, err
	}
	csi := slices.IndexFunc(records, func(r *volumes.Record) bool { return r.CSI })
	var failed []error
	if csi >= 0 {
		if phase == "" || phase.Terminal() { // otherwise they are waited for, and kept by the finalizer
			failed = append(failed, r.settleCSI(ctx, records[csi], uid))
		}
		if records = slices.Delete(records, csi, csi+1); len(records) == 0 {
			return ctrl.Result{}, errors.Join(failed...)
		}
	}
	stored, err := r.stored(ctx, records[0], uid)
	if err != nil {
		return ctrl.Result{}, errors.Join(append(failed, err)...)
	}
	for _, record := range records {
		failed = append(failed, r.settle(ctx, record, stored))
	}
	return ctrl.Result{}, errors.Join(failed...)
}

// hasRecords reports whether the cache knows records of a backup. It may know them late: then an event follows.
func (r *Controller) hasRecords(ctx context.Context, uid types.UID) (bool, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	err := r.List(ctx, &list, client.InNamespace(r.Namespace), client.MatchingLabels{volumes.OwnerLabel: string(uid)})
	return len(list.Items) > 0, err
}

// phase returns the phase of a backup, "" if it was deleted. InProgress means that its run goes on, or is taken up
// again.
func (r *Controller) phase(
	ctx context.Context, name types.NamespacedName, uid types.UID,
) (velerov1.BackupPhase, error) {
	var b velerov1.Backup
	err := r.Live.Get(ctx, name, &b)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("get backup %s: %w", name.Name, err)
	}
	if err != nil || b.UID != uid || b.DeletionTimestamp != nil {
		return "", nil
	}
	return run.BackupPhase(&b), nil
}

// settleCSI removes the CSI snapshots of a backup that has ended. If the backup was completed, only the objects that
// its finalizer may have left are deleted, and the snapshots stay. settleCSI then drops the record.
func (r *Controller) settleCSI(ctx context.Context, record *volumes.Record, uid types.UID) error {
	objects, err := r.open(ctx, record, uid)
	if err != nil {
		return err
	}
	var stored velerov1.Backup
	metadata, err := objects.BackupMetadata(ctx, record.Backup.Name)
	if err == nil {
		err = store.DecodeMetadata(metadata, &stored)
	}
	damaged := errors.Is(err, store.ErrDamaged) // it may have been complete
	if err != nil && !errors.Is(err, store.ErrNotFound) && !damaged {
		return err
	}
	complete := damaged || stored.UID == uid && (stored.Status.Phase == velerov1.BackupPhaseCompleted ||
		stored.Status.Phase == velerov1.BackupPhasePartiallyFailed)
	settle := r.VolumeSnapshots.Remove
	if complete {
		settle = r.VolumeSnapshots.Keep
	}
	if err := settle(ctx, uid); err != nil {
		return fmt.Errorf("the CSI snapshots of backup %s: %w", record.Backup.Name, err)
	}
	return record.Drop(ctx)
}

// open opens the storage location of a backup.
func (r *Controller) open(ctx context.Context, record *volumes.Record, uid types.UID) (*store.Store, error) {
	location, err := r.GetLocation(ctx, record.StorageLocation)
	if errors.Is(err, run.ErrLocationNotFound) {
		return nil, fmt.Errorf("whether backup %s has snapshots that its run has left is not known: %w; create the "+
			"location again, or delete the ConfigMaps with the label %s=%s",
			record.Backup.Name, err, volumes.OwnerLabel, uid)
	}
	if err != nil {
		return nil, err
	}
	return r.Stores.Open(ctx, location)
}

// stored returns the ids of the snapshots that the stored backup has.
func (r *Controller) stored(ctx context.Context, record *volumes.Record, uid types.UID) (map[string]bool, error) {
	objects, err := r.open(ctx, record, uid)
	if err != nil {
		return nil, err
	}
	name := record.Backup.Name
	switch found, err := objects.BackupUID(ctx, name); {
	case errors.Is(err, store.ErrNotFound), err == nil && found != uid:
		return nil, nil
	case err != nil && !errors.Is(err, store.ErrDamaged): // a damaged file may be that of the backup
		return nil, err
	}
	list, err := store.DecodeList[[]*volumes.Snapshot](ctx, objects, velerov1.DownloadTargetKindBackupVolumeSnapshots,
		name)
	if err != nil {
		return nil, err
	}
	ids := map[string]bool{}
	for _, s := range list {
		ids[s.Status.ProviderSnapshotID] = true
	}
	return ids, nil
}

// settle deletes the snapshot of a record, unless the backup has it, and then the record.
func (r *Controller) settle(ctx context.Context, record *volumes.Record, stored map[string]bool) error {
	s := &record.Snapshot
	id := s.Status.ProviderSnapshotID
	log := r.Log.With("backup", record.Backup.Name, "persistentVolume", s.Spec.PersistentVolumeName, "location",
		s.Spec.Location)
	switch {
	case stored[id] && id != "":
	case id == "":
		log.Warn("a server was stopped while it requested a snapshot; if the snapshot exists, no backup has it: look for "+
			"it by its tags, and delete it",
			"volumeID", s.Spec.ProviderVolumeID, "tags", fmt.Sprintf("velero.io/backup=%s, velero.io/pv=%s", s.Spec.BackupName,
				s.Spec.PersistentVolumeName))
	default:
		plugin, err := r.OpenSnapshotter(r.Snapshotters)(ctx, s.Spec.Location)
		if err == nil {
			err = plugin.DeleteSnapshot(ctx, id)
		}
		if err != nil {
			return fmt.Errorf("delete snapshot %s, which no backup has: %w", id, err)
		}
		log.Info("deleted a snapshot that no backup has", "snapshot", id)
	}
	return record.Drop(ctx)
}
