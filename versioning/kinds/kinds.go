package kinds

import (
	"slices"

	"github.com/cleat-dev/cleat/versioning"
	"github.com/cleat-dev/cleat/versioning/backupitemaction"
	"github.com/cleat-dev/cleat/versioning/datamover"
	"github.com/cleat-dev/cleat/versioning/deleteitemaction"
	"github.com/cleat-dev/cleat/versioning/itemblockaction"
	"github.com/cleat-dev/cleat/versioning/loadsoothing"
	"github.com/cleat-dev/cleat/versioning/manifestwriter"
	"github.com/cleat-dev/cleat/versioning/objectstore"
	"github.com/cleat-dev/cleat/versioning/queueadmission"
	"github.com/cleat-dev/cleat/versioning/restoreitemaction"
	"github.com/cleat-dev/cleat/versioning/volumesnapshotter"
)

// BackupItemAction returns the kind whose plugins see and change items while they are backed up.
func BackupItemAction() versioning.Kind[backupitemaction.Action] {
	return versioning.Kind[backupitemaction.Action]{
		Name: "BackupItemAction", Configured: true,
		Versions: []versioning.Version[backupitemaction.Action]{
			{
				Wire: "BackupItemAction", Number: 1, Probe: "/generated.BackupItemAction/AppliesTo",
				Bind: backupitemaction.NewV1, Calls: backupitemaction.CallsV1(),
			},
			{Wire: "BackupItemActionV2", Number: 2, Probe: "/v2.BackupItemAction/AppliesTo", Bind: backupitemaction.NewV2,
				Calls: backupitemaction.CallsV2()},
		},
	}
}

// AsyncBackupItemAction returns the kind whose plugins start work on items that are backed up. It shares
// BackupItemAction's hub.
func AsyncBackupItemAction() versioning.Kind[backupitemaction.Action] {
	return versioning.Kind[backupitemaction.Action]{
		Name: "AsyncBackupItemAction", Late: true, Configured: true,
		Versions: []versioning.Version[backupitemaction.Action]{
			{
				Wire: "AsyncBackupItemAction", Number: 1,
				Probe: "/cleat.asyncbackupitemaction.v1.AsyncBackupItemActionService/AppliesTo",
				Bind:  backupitemaction.NewAsyncV1, Calls: backupitemaction.CallsAsyncV1(),
			},
		},
	}
}

// BackupItemActions returns the kinds whose plugins act on items that are backed up.
func BackupItemActions() []versioning.Kind[backupitemaction.Action] {
	return []versioning.Kind[backupitemaction.Action]{BackupItemAction(), AsyncBackupItemAction()}
}

// RestoreItemAction returns the kind whose plugins see, change and skip items before they are restored.
func RestoreItemAction() versioning.Kind[restoreitemaction.Action] {
	return versioning.Kind[restoreitemaction.Action]{
		Name: "RestoreItemAction", Configured: true,
		Versions: []versioning.Version[restoreitemaction.Action]{
			{
				Wire: "RestoreItemAction", Number: 1, Probe: "/generated.RestoreItemAction/AppliesTo",
				Bind: restoreitemaction.NewV1, Calls: restoreitemaction.CallsV1(),
			},
			{
				Wire: "RestoreItemActionV2", Number: 2, Probe: "/v2.RestoreItemAction/AppliesTo",
				Bind: restoreitemaction.NewV2, Calls: restoreitemaction.CallsV2(),
			},
		},
	}
}

// AsyncRestoreItemAction returns the kind whose plugins start work on items that are restored. It shares
// RestoreItemAction's hub.
func AsyncRestoreItemAction() versioning.Kind[restoreitemaction.Action] {
	return versioning.Kind[restoreitemaction.Action]{
		Name: "AsyncRestoreItemAction", Late: true, Configured: true,
		Versions: []versioning.Version[restoreitemaction.Action]{
			{
				Wire: "AsyncRestoreItemAction", Number: 1,
				Probe: "/cleat.asyncrestoreitemaction.v1.AsyncRestoreItemActionService/AppliesTo",
				Bind:  restoreitemaction.NewAsyncV1, Calls: restoreitemaction.CallsAsyncV1(),
			},
		},
	}
}

// RestoreItemActions returns the kinds whose plugins act on items that are restored.
func RestoreItemActions() []versioning.Kind[restoreitemaction.Action] {
	return []versioning.Kind[restoreitemaction.Action]{RestoreItemAction(), AsyncRestoreItemAction()}
}

// DeleteItemAction returns the kind whose plugins see the items of backups that are deleted.
func DeleteItemAction() versioning.Kind[deleteitemaction.Action] {
	return versioning.Kind[deleteitemaction.Action]{
		Name: "DeleteItemAction", Configured: true,
		Versions: []versioning.Version[deleteitemaction.Action]{
			{
				Wire: "DeleteItemAction", Number: 1, Probe: "/generated.DeleteItemAction/AppliesTo",
				Bind: deleteitemaction.NewV1, Calls: deleteitemaction.CallsV1(),
			},
		},
	}
}

// ItemBlockAction returns the kind whose plugins name the items that are backed up together.
func ItemBlockAction() versioning.Kind[itemblockaction.Action] {
	return versioning.Kind[itemblockaction.Action]{
		Name: "ItemBlockAction", Configured: true,
		Versions: []versioning.Version[itemblockaction.Action]{
			{Wire: "ItemBlockAction", Number: 1, Probe: "/v1.ItemBlockAction/AppliesTo", Bind: itemblockaction.NewV1,
				Calls: itemblockaction.CallsV1()},
		},
	}
}

// ObjectStore returns the kind whose plugins store the files of backups and restores.
func ObjectStore() versioning.Kind[objectstore.Store] {
	return versioning.Kind[objectstore.Store]{
		Name: "ObjectStore", Provider: "object store provider",
		Versions: []versioning.Version[objectstore.Store]{
			{Wire: "ObjectStore", Number: 1, Probe: "/generated.ObjectStore/ObjectExists", Bind: objectstore.NewV1,
				Calls: objectstore.CallsV1()},
		},
	}
}

// VolumeSnapshotter returns the kind whose plugins take snapshots of volumes.
func VolumeSnapshotter() versioning.Kind[volumesnapshotter.Snapshotter] {
	return versioning.Kind[volumesnapshotter.Snapshotter]{
		Name: "VolumeSnapshotter", Provider: "volume snapshotter provider",
		Versions: []versioning.Version[volumesnapshotter.Snapshotter]{
			{
				Wire: "VolumeSnapshotter", Number: 1, Probe: "/generated.VolumeSnapshotter/GetVolumeInfo",
				Bind: volumesnapshotter.NewV1, Calls: volumesnapshotter.CallsV1(),
			},
		},
	}
}

// QueueAdmission returns the kind whose plugins decide which queued backups may start.
func QueueAdmission() versioning.Kind[queueadmission.Policy] {
	return versioning.Kind[queueadmission.Policy]{
		Name: "QueueAdmission", Policy: true,
		Versions: []versioning.Version[queueadmission.Policy]{
			{
				Wire: "QueueAdmission", Number: 1, Probe: "/cleat.queueadmission.v1.QueueAdmissionService/Decide",
				Bind: queueadmission.NewV1, Calls: queueadmission.CallsV1(),
			},
		},
	}
}

// LoadSoothing returns the kind whose plugins decide when a load may begin to prepare.
func LoadSoothing() versioning.Kind[loadsoothing.Policy] {
	return versioning.Kind[loadsoothing.Policy]{
		Name: "LoadSoothing", Policy: true,
		Versions: []versioning.Version[loadsoothing.Policy]{
			{
				Wire: "LoadSoothing", Number: 1, Probe: "/cleat.loadsoothing.v1.LoadSoothingService/Admit",
				Bind: loadsoothing.NewV1, Calls: loadsoothing.CallsV1(),
			},
		},
	}
}

// ManifestWriter returns the kind whose plugins describe backups in files that are stored beside them.
func ManifestWriter() versioning.Kind[manifestwriter.Writer] {
	return versioning.Kind[manifestwriter.Writer]{
		Name: "ManifestWriter", Policy: true,
		Versions: []versioning.Version[manifestwriter.Writer]{
			{
				Wire: "ManifestWriter", Number: 1, Probe: "/cleat.manifestwriter.v1.ManifestWriterService/Write",
				Bind: manifestwriter.NewV1, Calls: manifestwriter.CallsV1(),
			},
		},
	}
}

// DataMover returns the kind whose plugins move the data of volumes.
func DataMover() versioning.Kind[datamover.Mover] {
	return versioning.Kind[datamover.Mover]{
		Name: "DataMover", Configured: true,
		Versions: []versioning.Version[datamover.Mover]{
			{
				Wire: "DataMover", Number: 1, Probe: "/cleat.datamover.v1.DataMoverService/Check",
				Bind: datamover.NewV1, Calls: datamover.CallsV1(),
			},
		},
	}
}

// All returns every version of every kind, without the hubs.
func All() []versioning.WireKind {
	return slices.Concat(
		BackupItemAction().WireKinds(),
		AsyncBackupItemAction().WireKinds(),
		RestoreItemAction().WireKinds(),
		AsyncRestoreItemAction().WireKinds(),
		DeleteItemAction().WireKinds(),
		ItemBlockAction().WireKinds(),
		ObjectStore().WireKinds(),
		VolumeSnapshotter().WireKinds(),
		QueueAdmission().WireKinds(),
		LoadSoothing().WireKinds(),
		ManifestWriter().WireKinds(),
		DataMover().WireKinds(),
	)
}

// Lookup returns the version with the name wire in a plugin's list, or false if the server does not know it.
func Lookup(wire string) (versioning.WireKind, bool) { return versioning.Lookup(All(), wire) }
