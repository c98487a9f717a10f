package location

import (
	"github.com/spf13/cobra"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status"
)

// NewCommand returns the command "backup-location".
func NewCommand(a *command.App) *cobra.Command {
	return command.NewParent("backup-location", "Work with backup storage locations, the buckets of backups",
		newCreateCommand(a), command.NewGetCommand(a, "backup storage locations", getter()), newDescribeCommand(a),
		newSetCommand(a), newDeleteCommand(a))
}

func getter() command.Getter[velerov1.BackupStorageLocation, *velerov1.BackupStorageLocation,
	*velerov1.BackupStorageLocationList] {
	return command.Getter[velerov1.BackupStorageLocation, *velerov1.BackupStorageLocation,
		*velerov1.BackupStorageLocationList]{
		Kind:    "BackupStorageLocation",
		NewList: func() *velerov1.BackupStorageLocationList { return &velerov1.BackupStorageLocationList{} },
		Items:   func(l *velerov1.BackupStorageLocationList) *[]velerov1.BackupStorageLocation { return &l.Items },
		Table:   status.LocationTable,
		Is:      func(l *velerov1.BackupStorageLocation) bool { return l.Spec.Default },
		IsFlag:  "default", IsHelp: "only the default location",
	}
}

// NewSnapshotCommand returns the command "snapshot-location".
func NewSnapshotCommand(a *command.App) *cobra.Command {
	g := snapshotGetter()
	return command.NewParent("snapshot-location",
		"Work with volume snapshot locations, the settings of volume snapshotters",
		newSnapshotCreateCommand(a), command.NewGetCommand(a, "volume snapshot locations", g), newSnapshotSetCommand(a),
		command.NewDeleteCommand(a, "Volume snapshot location", "volume snapshot locations", g,
			command.Deletion[velerov1.VolumeSnapshotLocation]{}))
}

func snapshotGetter() command.Getter[velerov1.VolumeSnapshotLocation, *velerov1.VolumeSnapshotLocation,
	*velerov1.VolumeSnapshotLocationList] {
	return command.Getter[velerov1.VolumeSnapshotLocation, *velerov1.VolumeSnapshotLocation,
		*velerov1.VolumeSnapshotLocationList]{
		Kind:    "VolumeSnapshotLocation",
		NewList: func() *velerov1.VolumeSnapshotLocationList { return &velerov1.VolumeSnapshotLocationList{} },
		Items:   func(l *velerov1.VolumeSnapshotLocationList) *[]velerov1.VolumeSnapshotLocation { return &l.Items },
		Table:   status.SnapshotLocationTable,
	}
}
