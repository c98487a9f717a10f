// Package volume reads what the files beside the archive of a backup say about the data of its volumes: volumeinfo, and
// for backups that Velero made before 1.13 the lists of native snapshots and pod volume backups. The formats are Velero's.
//
// The package imports the standard library only. Start at List.
package volume

import (
	"cmp"
	"fmt"
)

// How the data of a volume was backed up, as in volumeinfo.
const (
	NativeSnapshot  = "NativeSnapshot"
	PodVolumeBackup = "PodVolumeBackup"
	CSISnapshot     = "CSISnapshot"
)

// Info is an entry of the file volumeinfo.
type Info struct {
	PVCName           string `json:"pvcName"`
	PVCNamespace      string `json:"pvcNamespace"`
	PVName            string `json:"pvName"`
	BackupMethod      string `json:"backupMethod"`
	SnapshotDataMoved bool   `json:"snapshotDataMoved"`
	Skipped           bool   `json:"skipped"`
	CSISnapshotInfo   *struct {
		SnapshotHandle string `json:"snapshotHandle"`
		Driver         string `json:"driver"`
	} `json:"csiSnapshotInfo"`
	SnapshotDataMovementInfo *struct {
		DataMover      string `json:"dataMover"`
		SnapshotHandle string `json:"snapshotHandle"`
	} `json:"snapshotDataMovementInfo"`
	NativeSnapshotInfo *struct {
		SnapshotHandle string `json:"snapshotHandle"`
	} `json:"nativeSnapshotInfo"`
	PVBInfo *struct {
		SnapshotHandle string `json:"snapshotHandle"`
		UploaderType   string `json:"uploaderType"`
		VolumeName     string `json:"volumeName"`
		PodName        string `json:"podName"`
		PodNamespace   string `json:"podNamespace"`
	} `json:"pvbInfo"`
}

// Snapshot is an entry of the file volumesnapshots.
type Snapshot struct {
	Spec struct {
		Location             string `json:"location"`
		PersistentVolumeName string `json:"persistentVolumeName"`
	} `json:"spec"`
	Status struct {
		ProviderSnapshotID string `json:"providerSnapshotID"`
	} `json:"status"`
}

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

// Volume is a volume whose data is in a backup. Names that are not known are empty.
type Volume struct {
	Method                  string
	PV                      string
	ClaimNamespace, Claim   string
	PodNamespace, Pod, Name string // the pod, and the name of the volume in it
	Where                   string // for messages: what holds the data
}

// String names the volume in messages.
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

// List returns the volumes whose data a backup has. The lists of snapshots and pod volumes count only where there is no
// volumeinfo.
func List(infos []Info, snapshots []Snapshot, podVolumes []PodVolume) []*Volume {
	var volumes []*Volume
	for i := range infos {
		if info := &infos[i]; !info.Skipped && info.BackupMethod != "" {
			volumes = append(volumes, info.volume())
		}
	}
	if len(infos) > 0 {
		return volumes
	}
	for i := range snapshots {
		if s := &snapshots[i]; s.Status.ProviderSnapshotID != "" {
			volumes = append(volumes, &Volume{
				Method: NativeSnapshot, PV: s.Spec.PersistentVolumeName,
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
			Method: PodVolumeBackup, PodNamespace: p.Spec.Pod.Namespace, Pod: p.Spec.Pod.Name, Name: p.Spec.Volume,
			Where: fileSystemBackup(p.Spec.UploaderType, p.Status.SnapshotID),
		}
		if claim := p.Metadata.Annotations["velero.io/pvc-name"]; claim != "" {
			v.ClaimNamespace, v.Claim = p.Spec.Pod.Namespace, claim
		}
		volumes = append(volumes, v)
	}
	return volumes
}

func (i *Info) volume() *Volume {
	v := &Volume{Method: i.BackupMethod, PV: i.PVName, ClaimNamespace: i.PVCNamespace, Claim: i.PVCName, Where: "what the method " + i.BackupMethod + " has made"}
	switch {
	case i.SnapshotDataMoved && i.SnapshotDataMovementInfo != nil:
		v.Where = fmt.Sprintf("snapshot %s of data mover %s", i.SnapshotDataMovementInfo.SnapshotHandle, cmp.Or(i.SnapshotDataMovementInfo.DataMover, "velero"))
	case i.CSISnapshotInfo != nil:
		v.Where = fmt.Sprintf("snapshot %s of CSI driver %s", i.CSISnapshotInfo.SnapshotHandle, i.CSISnapshotInfo.Driver)
	case i.NativeSnapshotInfo != nil:
		v.Where = "snapshot " + i.NativeSnapshotInfo.SnapshotHandle
	case i.PVBInfo != nil:
		v.PodNamespace, v.Pod, v.Name = i.PVBInfo.PodNamespace, i.PVBInfo.PodName, i.PVBInfo.VolumeName
		v.Where = fileSystemBackup(i.PVBInfo.UploaderType, i.PVBInfo.SnapshotHandle)
	}
	return v
}

func fileSystemBackup(uploader, snapshot string) string {
	return fmt.Sprintf("file system backup %s of %s", snapshot, cmp.Or(uploader, "restic"))
}

// Index finds volumes by what they belong to. The zero value has none.
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

// OfClaim returns the volumes of a claim; pv is the persistent volume that it is bound to, if that is known.
func (x Index) OfClaim(namespace, name, pv string) []*Volume {
	if found := x.byClaim[namespace+"/"+name]; len(found) > 0 {
		return found
	}
	return x.byPV[pv]
}

// OfPod returns the volumes of a pod.
func (x Index) OfPod(namespace, name string) []*Volume { return x.byPod[namespace+"/"+name] }
