// Package csi holds the built-in actions that back up the volumes of CSI drivers by snapshots, with the names and semantics that they
// have in Velero. They are called if the server runs with the feature EnableCSI. Start reading at claims.go: a claim brings a
// VolumeSnapshot (snapshots.go), and that its content, class and secrets (secrets.go). restore.go binds a restored claim to the
// snapshot, delete.go deletes it with the backup.
//
// A VolumeSnapshot of a backup exists for as long as its backup is made. When the backup is stored, the server calls Snapshots.Keep, and the storage system
// keeps what only the backup knows of. Snapshots of a backup that was not stored are removed by Snapshots.Remove. All snapshots
// of a backup have a label with its UID, from before they are taken.
package csi
