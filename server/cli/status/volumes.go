package status

import (
	"fmt"
	"strconv"

	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

// printVolumes writes how the data of volumes was backed up, as Velero does: the numbers, or each volume if they are
// loaded.
func (doc *BackupDescription) printVolumes(d *layout.Description) {
	status := &doc.Backup.Status
	d.Gap()
	d.Section("Backup Volumes", func() {
		printVolumesBy(d, "Velero-Native Snapshots", doc.Volumes, volumes.Native, status.VolumeSnapshotsCompleted,
			status.VolumeSnapshotsAttempted, printNative)
		d.Gap()
		printVolumesBy(d, "CSI Snapshots", doc.Volumes, volumes.CSI, status.CSIVolumeSnapshotsCompleted,
			status.CSIVolumeSnapshotsAttempted, printCSI)
		printMovements(d, "Data Uploads", doc.Movements, doc.Details)
		d.Gap()
		if len(doc.PodVolumes) == 0 {
			d.Line("Pod Volume Backups: %s", noneIncluded)
			return
		}
		printPodVolumes(d, "Pod Volume Backups - "+doc.PodVolumes[0].Uploader, doc.PodVolumes, doc.Details)
	})
}

// printVolumesBy writes the volumes whose data was backed up in one way: each, or how many if none is loaded.
func printVolumesBy(
	d *layout.Description, head string, infos []volumes.VolumeInfo, by volumes.Method, completed, attempted int,
	write func(*layout.Description, *volumes.VolumeInfo),
) {
	some := false
	for i := range infos {
		some = some || infos[i].BackupMethod == by
	}
	switch {
	case some:
		d.Section(head, func() {
			for i := range infos {
				if infos[i].BackupMethod == by {
					write(d, &infos[i])
				}
			}
		})
	case attempted > 0:
		d.Line("%s: %d of %d snapshots completed successfully (%s)", head, completed, attempted, seeDetails)
	default:
		d.Line("%s: %s", head, noneIncluded)
	}
}

func printNative(d *layout.Description, v *volumes.VolumeInfo) {
	d.Section(v.PVName, func() {
		if n := v.Native; n != nil {
			d.Pairs([2]string{"Snapshot ID", n.SnapshotHandle}, [2]string{"Type", n.VolumeType},
				[2]string{"Availability Zone", n.VolumeAZ},
				[2]string{"IOPS", n.IOPS}, [2]string{"Result", string(v.Result)})
		}
	})
}

func printCSI(d *layout.Description, v *volumes.VolumeInfo) {
	d.Section(v.PVCNamespace+"/"+v.PVCName, func() {
		if c := v.CSI; c != nil && v.PreserveLocalSnapshot {
			d.Section("Snapshot", func() {
				if c.OperationID != "" && !v.SnapshotDataMoved {
					d.Line("Operation ID: %s", c.OperationID)
				}
				d.Line("Snapshot Content Name: %s", c.VSCName)
				d.Line("Storage Snapshot ID: %s", c.SnapshotHandle)
				d.Line("Snapshot Size (bytes): %s", strconv.FormatInt(c.Size, 10))
				d.Line("CSI Driver: %s", c.Driver)
				d.Line("Result: %s", v.Result)
			})
		}
		if m := v.DataMovement; m != nil && v.SnapshotDataMoved {
			d.Section("Data Movement", func() {
				d.Line("Operation ID: %s", m.OperationID)
				d.Line("Data Mover: %s", moverOr(m.DataMover))
				d.Line("Uploader Type: %s", m.UploaderType)
				d.Line("Moved data Size (bytes): %s", strconv.FormatInt(m.Size, 10))
				if m.IncrementalSize > 0 {
					d.Line("Incremental data Size (bytes): %s", strconv.FormatInt(m.IncrementalSize, 10))
				}
				d.Line("Result: %s", v.Result)
			})
		}
	})
}

// printVolumes writes the sources of the volumes of a restore, as Velero does.
func (doc *RestoreDescription) printVolumes(d *layout.Description) {
	if len(doc.PodVolumes) > 0 {
		d.Gap()
		printPodVolumes(d, doc.PodVolumes[0].Uploader+" Restores", doc.PodVolumes, doc.Details)
	}
	printMovements(d, "Data Downloads", doc.Movements, doc.Details)
	if doc.Volumes == nil {
		return
	}
	var csi, native []volumes.RestoreVolumeInfo
	for _, v := range doc.Volumes {
		switch v.RestoreMethod {
		case volumes.CSI:
			csi = append(csi, v)
		case volumes.Native:
			native = append(native, v)
		}
	}
	d.Gap()
	if len(csi) == 0 {
		d.Line("CSI Snapshot Restores: %s", noneIncluded)
	} else {
		d.Section("CSI Snapshot Restores", func() { doc.printRestored(d, csi) })
	}
	if len(native) > 0 { // Velero does not show them
		d.Section("Velero-Native Snapshot Restores", func() { doc.printRestored(d, native) })
	}
}

func (doc *RestoreDescription) printRestored(d *layout.Description, infos []volumes.RestoreVolumeInfo) {
	for i := range infos {
		v := &infos[i]
		head, lines := restoredLines(v)
		d.Section(restoredName(v), func() {
			if !doc.Details {
				d.Line("%s: %s", head, seeDetails)
				return
			}
			d.Section(head, func() {
				for _, line := range lines {
					d.Line("%s: %s", line[0], line[1])
				}
			})
		})
	}
}

func restoredName(v *volumes.RestoreVolumeInfo) string {
	if v.RestoreMethod == volumes.Native {
		return v.PVName
	}
	return fmt.Sprintf("%s/%s", v.PVCNamespace, v.PVCName)
}

// restoredLines describes the source of a restored volume.
func restoredLines(v *volumes.RestoreVolumeInfo) (head string, lines [][2]string) {
	switch {
	case v.DataMovement != nil:
		m := v.DataMovement
		return "Data Movement", [][2]string{{"Operation ID", m.OperationID}, {"Data Mover", moverOr(m.DataMover)},
			{"Uploader Type", m.UploaderType}}
	case v.CSI != nil:
		c := v.CSI
		return "Snapshot", [][2]string{{"Snapshot Content Name", c.VSCName}, {"Storage Snapshot ID", c.SnapshotHandle},
			{"CSI Driver", c.Driver}}
	case v.Native != nil:
		n := v.Native
		return "Snapshot", [][2]string{{"Snapshot ID", n.SnapshotHandle}, {"Type", n.VolumeType},
			{"Availability Zone", n.VolumeAZ}, {"IOPS", n.IOPS}}
	default:
		return "Snapshot", nil
	}
}
