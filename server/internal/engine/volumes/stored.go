package volumes

import (
	"cmp"
	"context"
	"fmt"

	"github.com/hashicorp/go-hclog"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
)

// place is the repository of a namespace, as a data mover sees it.
type place struct {
	mover     string // that has stored the data; "" for an engine that has none
	namespace string
}

// compare orders repositories by namespace, then by mover.
func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(p.namespace, other.namespace), cmp.Compare(p.mover, other.mover))
}

// name describes a snapshot in the repository.
func (p place) name(id string) string {
	return fmt.Sprintf("snapshot %q in the repository %s of namespace %q", id, p.mover, p.namespace)
}

// stored is the data of a volume: a snapshot in a repository.
type stored struct {
	place

	id     string // of the snapshot; "" if there is no data
	of     string // the volume, for messages
	proven bool   // a load in this cluster has stored it
}

// storedBy returns the data of a backup's volumes in repositories. It is listed in the files in the bucket, which
// another cluster may have written, and, if there may be loads that the files do not have, in the loads in this
// cluster, which are all that a failed backup leaves. Of files that are damaged, it returns what can be read.
func (h *Hub) storedBy(
	ctx context.Context, b *velerov1.Backup, objects *store.Store, loads bool, done *Removed, log hclog.Logger,
) (all []stored, err error) {
	for one, err := range store.PodVolumeBackups[velerov1.PodVolumeBackup](ctx, objects, b.Name) {
		if done.isUnread(err) {
			loads = true
			break
		}
		if err != nil {
			return nil, err
		}
		all = append(all, storedByPod(&one))
	}
	infos, err := store.DecodeList[[]VolumeInfo](ctx, objects, velerov1.DownloadTargetKindBackupVolumeInfos, b.Name)
	if done.isUnread(err) {
		loads = true
	} else if err != nil {
		return nil, err
	}
	all = append(all, storedByMovements(infos)...)
	if !loads {
		return all, nil
	}
	var ofPods velerov1.PodVolumeBackupList
	if ofPods.Items, err = written(ctx, h, b, &ofPods, &ofPods.Items, log); err != nil {
		return nil, err
	}
	for i := range ofPods.Items {
		all = append(all, storedByPod(&ofPods.Items[i]))
	}
	var uploads velerov2alpha1.DataUploadList
	uploads.Items, err = written(ctx, h, b, &uploads, &uploads.Items, log)
	for i := range uploads.Items {
		all = append(all, storedByUpload(&uploads.Items[i]))
	}
	return all, err
}

// storedByPod returns what a PodVolumeBackup has stored.
func storedByPod(load *velerov1.PodVolumeBackup) stored {
	spec := &load.Spec
	return stored{
		place: place{velerov1.MoverOf(spec.Engine()), spec.Pod.Namespace}, id: load.Status.SnapshotID,
		of: fmt.Sprintf("volume %s of pod %s/%s", spec.Volume, spec.Pod.Namespace, spec.Pod.Name),
	}
}

// storedByUpload returns what a DataUpload has stored.
func storedByUpload(load *velerov2alpha1.DataUpload) stored {
	spec := &load.Spec
	s := storedOfClaim(spec.DataMover, spec.SourceNamespace, spec.SourcePVC, load.Status.SnapshotID)
	s.proven = true // a bucket brings no DataUploads
	return s
}

// storedByMovements returns what DataUploads have stored according to the file volumeinfo of a backup.
func storedByMovements(infos []VolumeInfo) (all []stored) {
	for i := range infos {
		if moved := infos[i].DataMovement; infos[i].SnapshotDataMoved && moved != nil {
			all = append(all, storedOfClaim(moved.DataMover, infos[i].PVCNamespace, infos[i].PVCName, moved.SnapshotHandle))
		}
	}
	return all
}

func storedOfClaim(mover, namespace, claim, id string) stored {
	if engine := velerov1.EngineOf(mover); engine != "" {
		mover = velerov1.MoverOf(engine)
	}
	return stored{place: place{mover, namespace}, id: id, of: fmt.Sprintf("volume claim %s/%s", namespace, claim)}
}
