// Package volume reads the files beside the archive of a backup that describe the data of its volumes: volumeinfo, and
// for backups that Velero made before 1.13 the lists of native snapshots and pod volume backups. The formats are
// Velero's.
//
// The package imports package volumes, which has the types of the files. Start at List.
package volume

import (
	"cmp"
	"fmt"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
)

// PodVolume is an entry of the file podvolumebackups.
type PodVolume struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Pod struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"pod"`
		Volume       string `json:"volume"`
		UploaderType string `json:"uploaderType"`
	} `json:"spec"`
	Status struct {
		SnapshotID string `json:"snapshotID"`
	} `json:"status"`
}

// Volume is a volume whose data is in a backup. Unknown names are empty.
type Volume struct {
	Method                  volumes.Method
	PV                      string
	ClaimNamespace, Claim   string
	PodNamespace, Pod, Name string // the pod, and the name of the volume in it
	Where                   string // for messages: the storage of the data
	// SnapshotID is the ID of the snapshot in the data mover or repository that has the data; "" if there is none.
	SnapshotID string
	// Restorer is the role of the action that restores the data; "" if there is none.
	Restorer framework.Role
	// Empty is set if there is nothing to restore: a data mover has found no file in the volume.
	Empty bool
	// Failed is set if the data is not in the backup, because the backup failed to store it.
	Failed bool
	// Moved is set if a data mover has moved the data of a CSI snapshot.
	Moved bool
	// OfVelero is set if only Velero can read the data, because there is no data mover for its engine.
	OfVelero bool
	// Snapshot is the snapshot from which a new volume can be made; nil if there is none.
	Snapshot *volumes.Snapshot
}

// String returns the name of the volume in messages.
func (v *Volume) String() string {
	switch {
	case v.Claim != "":
		return "persistent volume claim " + v.ClaimNamespace + "/" + v.Claim
	case v.Pod != "":
		return "volume " + v.Name + " of pod " + v.PodNamespace + "/" + v.Pod
	default:
		return "persistent volume " + v.PV
	}
}

// List returns the volumes whose data a backup has. The lists of snapshots and pod volumes are used only if there is
// no volumeinfo.
func List(infos []volumes.VolumeInfo, snapshots []volumes.Snapshot, podVolumes []PodVolume) []*Volume {
	usable := map[string]*volumes.Snapshot{} // by persistent volume
	for i := range snapshots {
		if s := &snapshots[i]; s.Status.ProviderSnapshotID != "" {
			usable[s.Spec.PersistentVolumeName] = s
		}
	}
	var found []*Volume
	for i := range infos {
		if info := &infos[i]; !info.Skipped && info.BackupMethod != "" {
			found = append(found, volumeOf(info, usable[info.PVName]))
		}
	}
	if len(infos) > 0 {
		return found
	}
	for i := range snapshots {
		if s := &snapshots[i]; s.Status.ProviderSnapshotID != "" {
			found = append(found, &Volume{
				Method: volumes.Native, PV: s.Spec.PersistentVolumeName, Snapshot: s,
				Where: fmt.Sprintf("snapshot %s of volume snapshot location %s", s.Status.ProviderSnapshotID, s.Spec.Location),
			})
		}
	}
	for i := range podVolumes {
		p := &podVolumes[i]
		if p.Status.SnapshotID == "" {
			continue
		}
		v := &Volume{
			Method: volumes.PodVolume, PodNamespace: p.Spec.Pod.Namespace, Pod: p.Spec.Pod.Name, Name: p.Spec.Volume,
			Where: fileSystemBackup(p.Spec.UploaderType, p.Status.SnapshotID), SnapshotID: p.Status.SnapshotID,
		}
		if isReadable(p.Spec.UploaderType) {
			v.Restorer = framework.RolePodVolumeRestores
		} else {
			v.OfVelero = true
		}
		if claim := p.Metadata.Annotations["velero.io/pvc-name"]; claim != "" {
			v.ClaimNamespace, v.Claim = p.Spec.Pod.Namespace, claim
		}
		found = append(found, v)
	}
	return found
}

func volumeOf(i *volumes.VolumeInfo, taken *volumes.Snapshot) *Volume {
	v := &Volume{Method: i.BackupMethod, PV: i.PVName, ClaimNamespace: i.PVCNamespace, Claim: i.PVCName,
		Where: "what the method " + string(i.BackupMethod) + " has made"}
	switch {
	case i.SnapshotDataMoved && i.DataMovement != nil:
		v.Moved, v.SnapshotID = true, i.DataMovement.SnapshotHandle
		v.Where = fmt.Sprintf("snapshot %s of data mover %s", i.DataMovement.SnapshotHandle,
			cmp.Or(i.DataMovement.DataMover, "velero"))
	case i.CSI != nil:
		v.Where = fmt.Sprintf("snapshot %s of CSI driver %s", i.CSI.SnapshotHandle, i.CSI.Driver)
	case i.Native != nil:
		v.Where = "snapshot " + i.Native.SnapshotHandle
	case i.PodVolume != nil:
		v.PodNamespace, v.Pod, v.Name = i.PodVolume.PodNamespace, i.PodVolume.PodName, i.PodVolume.VolumeName
		v.SnapshotID = i.PodVolume.SnapshotHandle
		v.Where = fileSystemBackup(i.PodVolume.UploaderType, i.PodVolume.SnapshotHandle)
	}
	switch {
	case i.BackupMethod == volumes.Native:
		v.Snapshot = taken
	case i.BackupMethod == volumes.CSI && i.Result == volumes.Unusable:
		v.Failed = true
	case i.BackupMethod == volumes.CSI:
		v.Restorer = framework.RoleClaimRestores
	case i.BackupMethod == volumes.PodVolume && i.Result == volumes.Unusable:
		v.Failed = true
	case i.PodVolume != nil && isReadable(i.PodVolume.UploaderType):
		v.Restorer, v.Empty = framework.RolePodVolumeRestores, i.PodVolume.SnapshotHandle == ""
	case i.PodVolume != nil:
		v.OfVelero = true
	}
	return v
}

// isReadable reports whether there is a data mover for what an uploader has stored. Old backups, which did not name the
// uploader, always used restic.
func isReadable(uploader string) bool {
	return velerov1.MoverOf(cmp.Or(velerov1.RepositoryType(uploader), velerov1.RepositoryTypeRestic)) != ""
}

func fileSystemBackup(uploader, snapshot string) string {
	return fmt.Sprintf("file system backup %s of %s", snapshot, cmp.Or(uploader, "restic"))
}

// Index finds volumes by the objects to which they belong. The zero value has none.
type Index struct {
	byPV, byClaim, byPod map[string][]*Volume
}

// NewIndex returns an index of volumes.
func NewIndex(volumes []*Volume) Index {
	x := Index{byPV: map[string][]*Volume{}, byClaim: map[string][]*Volume{}, byPod: map[string][]*Volume{}}
	for _, v := range volumes {
		if v.PV != "" {
			x.byPV[v.PV] = append(x.byPV[v.PV], v)
		}
		if v.Claim != "" {
			x.byClaim[v.ClaimNamespace+"/"+v.Claim] = append(x.byClaim[v.ClaimNamespace+"/"+v.Claim], v)
		}
		if v.Pod != "" {
			x.byPod[v.PodNamespace+"/"+v.Pod] = append(x.byPod[v.PodNamespace+"/"+v.Pod], v)
		}
	}
	return x
}

// OfPV returns the volumes of a persistent volume.
func (x Index) OfPV(name string) []*Volume { return x.byPV[name] }

// OfClaim returns the volumes of a claim; pv is the persistent volume to which it is bound, if that is known.
func (x Index) OfClaim(namespace, name, pv string) []*Volume {
	if found := x.byClaim[namespace+"/"+name]; len(found) > 0 {
		return found
	}
	return x.byPV[pv]
}

// OfPod returns the volumes of a pod.
func (x Index) OfPod(namespace, name string) []*Volume { return x.byPod[namespace+"/"+name] }
