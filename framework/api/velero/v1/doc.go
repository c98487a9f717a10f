// Package v1 has the custom resources of group velero.io, version v1: Backup, Restore and Schedule,
// the locations of data (BackupStorageLocation, VolumeSnapshotLocation), and the requests of clients
// to the server (DownloadRequest, DeleteBackupRequest, ServerStatusRequest), the movement of data from
// and to volumes of pods (PodVolumeBackup, PodVolumeRestore), and the repositories with that data
// (BackupRepository).
//
// Field names, JSON tags and enum values are those of Velero, so that each side can read the objects
// of the other without loss. None of these resources has a status subresource: clients write the
// status with plain updates and patches.
//
// The definitions are as strict as Velero's, except that they refuse a duration that Go cannot parse,
// such as 30d: if one object had such a value, no client could decode a list.
//
// The package is linked into every plugin binary. It may only import k8s.io/apimachinery and the
// standard library. The few types that Velero takes from k8s.io/api are declared in references.go.
//
// Start reading at backup_types.go, then restore_types.go; labels.go has the labels,
// annotations and finalizers that link these resources to the objects of a cluster.
//
// +kubebuilder:object:generate=true
// +groupName=velero.io
package v1
