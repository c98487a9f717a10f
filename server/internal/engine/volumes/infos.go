package volumes

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/cleat-dev/cleat/server/internal/engine/operation"
)

// Infos collects what a backup knows of the data of its persistent volumes. It is safe for concurrent use.
type Infos struct {
	// DataMover is spec.datamover of the backup.
	DataMover string

	mu        sync.Mutex
	byPV      map[string]*VolumeInfo
	ofPods    []*VolumeInfo // volumes of pods without a claim
	snapshots []*Snapshot
	csi       CSIFiles
	taken     []*snapshotv1.VolumeSnapshot                 // of csi
	contents  map[string]*snapshotv1.VolumeSnapshotContent // of csi, by name
}

// Skip adds a volume whose data is not backed up for a reason.
func (i *Infos) Skip(pv *corev1.PersistentVolume, reason string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	info := i.of(pv)
	info.Skipped, info.SkippedReason = true, reason
}

// Add adds a snapshot of a volume, whatever became of it.
func (i *Infos) Add(pv *corev1.PersistentVolume, s *Snapshot) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.of(pv).setSnapshot(s)
	i.snapshots = append(i.snapshots, s)
}

// of returns the entry of a volume. The caller holds mu.
func (i *Infos) of(pv *corev1.PersistentVolume) *VolumeInfo {
	if info := i.byPV[pv.Name]; info != nil {
		return info
	}
	info := &VolumeInfo{PVName: pv.Name, PV: &PVInfo{ReclaimPolicy: string(pv.Spec.PersistentVolumeReclaimPolicy),
		Labels: pv.Labels}}
	if claim := pv.Spec.ClaimRef; claim != nil {
		info.PVCNamespace, info.PVCName = claim.Namespace, claim.Name
	}
	if i.byPV == nil {
		i.byPV = map[string]*VolumeInfo{}
	}
	i.byPV[pv.Name] = info
	return info
}

// Files returns the content of the files volumesnapshots and volumeinfo, sorted by volume. They are never nil.
// operations are those of the backup.
func (i *Infos) Files(operations []operation.Operation, roles operation.Roles) ([]*Snapshot, []*VolumeInfo) {
	i.mu.Lock()
	defer i.mu.Unlock()
	snapshots := slices.Clone(i.snapshots)
	infos := append(i.infosOfCSI(operations, roles), i.infosOfMovements(operations, roles)...)
	settled := map[string]bool{}
	for _, info := range infos {
		settled[info.PVName] = true
	}
	for _, info := range i.byPV {
		if !settled[info.PVName] && (info.Skipped || info.BackupMethod != "") {
			// otherwise an action was to back up the data, and has said why it did not
			infos = append(infos, info)
		}
	}
	infos = append(infos, i.ofPods...)
	slices.SortFunc(snapshots, func(a, b *Snapshot) int {
		return cmp.Or(strings.Compare(a.Spec.PersistentVolumeName, b.Spec.PersistentVolumeName),
			strings.Compare(a.Spec.Location, b.Spec.Location))
	})
	slices.SortFunc(infos, func(a, b *VolumeInfo) int {
		return cmp.Or(
			strings.Compare(a.PVName, b.PVName), strings.Compare(a.PVCNamespace, b.PVCNamespace), strings.Compare(a.PVCName,
				b.PVCName),
			comparePodVolumes(a.PodVolume, b.PodVolume),
		)
	})
	return append([]*Snapshot{}, snapshots...), append([]*VolumeInfo{}, infos...)
}

func comparePodVolumes(a, b *PodInfo) int {
	if a == nil || b == nil {
		return 0
	}
	return cmp.Or(
		strings.Compare(a.PodNamespace, b.PodNamespace), strings.Compare(a.PodName, b.PodName), strings.Compare(a.VolumeName,
			b.VolumeName),
	)
}
