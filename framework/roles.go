package framework

import "github.com/cleat-dev/cleat/framework/internal/glue"

// Role is a property of a plugin, beyond its kind, that a server relies on. A plugin declares its roles with WithRoles;
// a server does not depend on names of plugins. Plugins that are built for Velero cannot declare roles; a server has a
// table with the roles of Velero's own plugins. Each role is a contract: a server relies on what is stated below, and
// offers it.
type Role = glue.Role

const (
	// RoleCSI is of all actions that work on snapshots of CSI volumes. A server calls them only if the feature EnableCSI
	// is on. It is for all kinds of item actions.
	RoleCSI = glue.RoleCSI

	// RoleClaimSnapshots is of a BackupItemAction for PersistentVolumeClaims that takes a snapshot of the CSI volume of a
	// claim. A server calls it for the claims whose volumes are to have a snapshot. The VolumeSnapshot that the action
	// creates is in the namespace of the claim, has the labels velero.io/backup-name and velero.io/backup-uid, and is an
	// additional item. If the backup is to move the data, the action starts an operation, labels the VolumeSnapshot with
	// velero.io/async-operation-id, and creates a DataUpload with the same label, which is a post-operation item.
	RoleClaimSnapshots = glue.RoleClaimSnapshots

	// RoleOwnSnapshots is of a BackupItemAction for PersistentVolumeClaims that takes snapshots in a way of its own, in
	// which the server has no part. A server calls it for all claims, except those that a volume policy skips.
	RoleOwnSnapshots = glue.RoleOwnSnapshots

	// RoleSnapshotObjects is of a BackupItemAction for VolumeSnapshots whose operation, one for each VolumeSnapshot of the
	// backup, ends when the snapshot is ready to use.
	RoleSnapshotObjects = glue.RoleSnapshotObjects

	// RolePodVolumes is of a BackupItemAction or an AsyncBackupItemAction for Pods that has volumes of the pod backed up
	// from the file system. A server calls it only for pods with a chosen volume; the chosen ones are in the annotation
	// backup.velero.io/backup-volumes of the item, separated by commas. The action starts one operation for all, creates a
	// PodVolumeBackup for each with the label velero.io/backup-uid, and does not change the pod.
	RolePodVolumes = glue.RolePodVolumes

	// RoleClaimRestores is of a RestoreItemAction or an AsyncRestoreItemAction for PersistentVolumeClaims that gives a
	// restored claim the snapshot of its volume, or has its data moved back. A Restore that it gets has the annotation
	// cleat.dev/stored-volumes, a JSON object, with the id of the snapshot by the name of the claim, if the data was
	// moved.
	RoleClaimRestores = glue.RoleClaimRestores

	// RolePodVolumeRestores is of a RestoreItemAction or an AsyncRestoreItemAction for Pods that has volumes of a restored
	// pod filled before its containers start. A Restore that it gets has the annotation cleat.dev/stored-volumes, a JSON
	// object, with the ids of snapshots by the names of the volumes. The operation ends when all volumes are filled.
	RolePodVolumeRestores = glue.RolePodVolumeRestores

	// RoleDryRun is of an item action whose calls change nothing, neither in the cluster nor elsewhere, if the Backup or
	// the Restore that it gets has the annotation cleat.dev/dry-run. A dry run calls no other actions, except those that
	// the user names.
	RoleDryRun = glue.RoleDryRun

	// RoleNodeFiles is of an ObjectStore whose buckets are directories of the machine: the bucket NAME is the directory
	// NAME below the directory "path" of the config of the location. A node agent gives a data mover access to them.
	RoleNodeFiles = glue.RoleNodeFiles

	// RoleInFront is of an ObjectStore that stands in front of another one, and stores in that what it makes of each
	// object. The config of the location has the keys of objectstore/v1.FrontConfig. A server gives each key that the
	// config type of the store does not have to the store behind, and the keys of the location itself to both. It opens
	// the store behind before the one in front, and adds the address at which that calls it. Data movers store in the one
	// behind, past the one in front.
	RoleInFront = glue.RoleInFront

	// RoleMaintainsAlone is of a DataMover whose Maintain cannot work while another call for the same repository does. A
	// server calls it when no load of the repository is being moved, and loads wait until it has returned. It may meet
	// calls of other clients nevertheless. A mover without the role can be called at any time.
	RoleMaintainsAlone = glue.RoleMaintainsAlone
)

// WithRoles declares the roles of an implementation. It fails if the kind cannot have one of them.
func WithRoles(roles ...Role) Option { return Option(glue.Roles(roles)) }
