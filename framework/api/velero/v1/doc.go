// Package v1 holds the custom resources of group velero.io, version v1: what a user asks for
// (Backup, Restore, Schedule), where data lives (BackupStorageLocation,
// VolumeSnapshotLocation), and the requests that a client makes of the server
// (DownloadRequest, DeleteBackupRequest, ServerStatusRequest).
//
// Field names, JSON tags and enum values are those of Velero's wire, so that objects written by
// either side are read by the other without loss. None of these resources has a status
// subresource: clients write status with plain updates and patches.
//
// The definitions are as strict as Velero's, except that they refuse a duration that Go cannot read, such as
// 30d: one object with such a value keeps every client from reading the whole list.
//
// The package is linked into every plugin binary. It may import k8s.io/apimachinery and the
// standard library, nothing else; the few types that Velero takes from k8s.io/api are declared in
// references.go.
//
// Start reading at backup_types.go, then restore_types.go; labels.go lists the labels,
// annotations and finalizers that tie these resources to the objects of a cluster.
//
// +kubebuilder:object:generate=true
// +groupName=velero.io
package v1
