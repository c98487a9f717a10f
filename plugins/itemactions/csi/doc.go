// Package csi holds the built-in actions that back up the volumes of CSI drivers by snapshots, with the names and
// semantics that they have in Velero. They are called if the server runs with the feature EnableCSI. Start reading at
// claims.go: the action for a claim adds a VolumeSnapshot to the backup (snapshots.go), and the action for that adds
// its content, class and secrets (secrets.go). The snapshots of claims that are in a group are taken together
// (groups.go). restore.go binds a restored claim to the snapshot, delete.go deletes the
// snapshot with the backup.
//
// A VolumeSnapshot of a backup exists while the backup is made. When the backup is stored, the server calls
// Snapshots.Keep, which deletes the object and keeps the snapshot at the storage system. Snapshots of a backup that was
// not stored are removed by Snapshots.Remove. All VolumeSnapshots of a backup, and all objects of its groups, have a
// label with its UID from their creation on.
package csi
