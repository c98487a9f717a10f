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
	return versioning.NewKind(backupitemaction.V1(), backupitemaction.V2())
}

// AsyncBackupItemAction returns the kind whose plugins start work on items that are backed up. It shares
// BackupItemAction's hub.
func AsyncBackupItemAction() versioning.Kind[backupitemaction.Action] {
	kind := versioning.NewKind(backupitemaction.AsyncV1())
	kind.Late = true
	return kind
}

// BackupItemActions returns the kinds whose plugins act on items that are backed up.
func BackupItemActions() []versioning.Kind[backupitemaction.Action] {
	return []versioning.Kind[backupitemaction.Action]{BackupItemAction(), AsyncBackupItemAction()}
}

// RestoreItemAction returns the kind whose plugins see, change and skip items before they are restored.
func RestoreItemAction() versioning.Kind[restoreitemaction.Action] {
	return versioning.NewKind(restoreitemaction.V1(), restoreitemaction.V2())
}

// AsyncRestoreItemAction returns the kind whose plugins start work on items that are restored. It shares
// RestoreItemAction's hub.
func AsyncRestoreItemAction() versioning.Kind[restoreitemaction.Action] {
	kind := versioning.NewKind(restoreitemaction.AsyncV1())
	kind.Late = true
	return kind
}

// RestoreItemActions returns the kinds whose plugins act on items that are restored.
func RestoreItemActions() []versioning.Kind[restoreitemaction.Action] {
	return []versioning.Kind[restoreitemaction.Action]{RestoreItemAction(), AsyncRestoreItemAction()}
}

// DeleteItemAction returns the kind whose plugins see the items of backups that are deleted.
func DeleteItemAction() versioning.Kind[deleteitemaction.Action] {
	return versioning.NewKind(deleteitemaction.V1())
}

// ItemBlockAction returns the kind whose plugins name the items that are backed up together.
func ItemBlockAction() versioning.Kind[itemblockaction.Action] {
	return versioning.NewKind(itemblockaction.V1())
}

// ObjectStore returns the kind whose plugins store the files of backups and restores.
func ObjectStore() versioning.Kind[objectstore.Store] {
	kind := versioning.NewKind(objectstore.V1())
	kind.Provider = "object store provider"
	return kind
}

// VolumeSnapshotter returns the kind whose plugins take snapshots of volumes.
func VolumeSnapshotter() versioning.Kind[volumesnapshotter.Snapshotter] {
	kind := versioning.NewKind(volumesnapshotter.V1())
	kind.Provider = "volume snapshotter provider"
	return kind
}

// QueueAdmission returns the kind whose plugins decide which queued backups may start.
func QueueAdmission() versioning.Kind[queueadmission.Policy] {
	return versioning.NewKind(queueadmission.V1())
}

// LoadSoothing returns the kind whose plugins decide when a load may begin to prepare.
func LoadSoothing() versioning.Kind[loadsoothing.Policy] {
	return versioning.NewKind(loadsoothing.V1())
}

// ManifestWriter returns the kind whose plugins describe backups in files that are stored beside them.
func ManifestWriter() versioning.Kind[manifestwriter.Writer] {
	return versioning.NewKind(manifestwriter.V1())
}

// DataMover returns the kind whose plugins move the data of volumes.
func DataMover() versioning.Kind[datamover.Mover] {
	return versioning.NewKind(datamover.V1())
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

// Lookup returns the version with the name wire in a plugin's list, or false if the server does not support it.
func Lookup(wire string) (versioning.WireKind, bool) { return versioning.Lookup(All(), wire) }
