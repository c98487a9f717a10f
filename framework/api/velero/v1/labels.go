package v1

import (
	"crypto/sha256"
	"encoding/hex"
)

// MaxLabelValueLength is the number of bytes that Kubernetes allows in a label's value.
const MaxLabelValueLength = 63

// ValidLabelValue returns value unchanged when it is short enough for a label. A longer one is cut
// to its first 57 bytes, followed by the first 6 hexadecimal digits of the SHA-256 of the whole,
// so that long names with a common beginning stay apart. Set and look up labels that hold names
// (backup, restore, schedule, location) through it.
func ValidLabelValue(value string) string {
	if len(value) <= MaxLabelValueLength {
		return value
	}
	const digits = 6
	sum := sha256.Sum256([]byte(value))
	return value[:MaxLabelValueLength-digits] + hex.EncodeToString(sum[:])[:digits]
}

// Labels that say which backup, restore, schedule or location an object belongs to. Names go
// through ValidLabelValue.
const (
	// BackupNameLabel is the name of the Backup that an object was made for.
	BackupNameLabel = "velero.io/backup-name"

	// BackupUIDLabel is the UID of the Backup that an object was made for.
	BackupUIDLabel = "velero.io/backup-uid"

	// RestoreNameLabel is the name of the Restore that made an object.
	RestoreNameLabel = "velero.io/restore-name"

	// RestoreUIDLabel is the UID of the Restore that an object was made for.
	RestoreUIDLabel = "velero.io/restore-uid"

	// ScheduleNameLabel is the name of the Schedule that made a Backup.
	ScheduleNameLabel = "velero.io/schedule-name"

	// StorageLocationLabel is the name of the BackupStorageLocation of a Backup or repository.
	StorageLocationLabel = "velero.io/storage-location"

	// VolumeNamespaceLabel is the namespace whose volumes a backup repository holds.
	VolumeNamespaceLabel = "velero.io/volume-namespace"

	// RepositoryTypeLabel is the type of a backup repository, e.g. kopia.
	RepositoryTypeLabel = "velero.io/repository-type"

	// RepositoryNameLabel is the name of the BackupRepository that a maintenance job works on.
	RepositoryNameLabel = "velero.io/repo-name"

	// GCFailureLabel marks a Backup that expired and could not be garbage-collected; its value is
	// the reason.
	GCFailureLabel = "velero.io/gc-failure"

	// PluginConfigLabel marks a ConfigMap in the server's namespace as the configuration of the
	// plugin that its other label names.
	PluginConfigLabel = "velero.io/plugin-config"
)

// Labels and annotations by which users steer what is backed up and restored.
const (
	// ExcludeFromBackupLabel leaves an object, or a namespace with all that is in it, out of every
	// backup when it is "true".
	ExcludeFromBackupLabel = "velero.io/exclude-from-backup"

	// SkipFromBackupAnnotation is set by a backup item action to have its item left out of the
	// backup when it is "true".
	SkipFromBackupAnnotation = "velero.io/skip-from-backup"

	// MustIncludeAdditionalItemsAnnotation is set by a backup item action to "true" to have its
	// additional items backed up even where the filters of the backup leave them out.
	MustIncludeAdditionalItemsAnnotation = "backup.velero.io/must-include-additional-items"

	// RestoreStatusAnnotation says for one object, as "true" or "false", whether its status is
	// restored, whatever spec.restoreStatus says.
	RestoreStatusAnnotation = "velero.io/restore-status"

	// VolumesToBackupAnnotation of a pod is the comma-separated list of its volumes to back up
	// from the file system.
	VolumesToBackupAnnotation = "backup.velero.io/backup-volumes"

	// VolumesToExcludeAnnotation of a pod is the comma-separated list of its volumes not to back
	// up from the file system.
	VolumesToExcludeAnnotation = "backup.velero.io/backup-volumes-excludes"

	// DefaultVGSLabelKey is the label of volume claims by which they are grouped into one
	// snapshot, unless spec.volumeGroupSnapshotLabelKey names another.
	DefaultVGSLabelKey = "velero.io/volume-group"
)

// Annotations of a Backup that say where and how it was made.
const (
	// SourceClusterK8sGitVersionAnnotation is the version of the cluster, e.g. v1.36.3.
	SourceClusterK8sGitVersionAnnotation = "velero.io/source-cluster-k8s-gitversion"

	// SourceClusterK8sMajorVersionAnnotation is the major version of the cluster, e.g. 1.
	SourceClusterK8sMajorVersionAnnotation = "velero.io/source-cluster-k8s-major-version"

	// SourceClusterK8sMinorVersionAnnotation is the minor version of the cluster, e.g. 36.
	SourceClusterK8sMinorVersionAnnotation = "velero.io/source-cluster-k8s-minor-version"

	// ResourceTimeoutAnnotation is the server's limit of waits for resources, as a duration such
	// as 10m0s. Plugins read it.
	ResourceTimeoutAnnotation = "velero.io/resource-timeout"
)

// Labels and annotations of pod volume backups and restores, data uploads and data downloads, and
// of the pods and objects made for them.
const (
	// PodUIDLabel is the UID of the pod that a pod volume restore belongs to.
	PodUIDLabel = "velero.io/pod-uid"

	// PVCUIDLabel is the UID of the volume claim that a data path resource belongs to.
	PVCUIDLabel = "velero.io/pvc-uid"

	// PVCNameAnnotation is the name of the volume claim that a pod volume backup belongs to.
	PVCNameAnnotation = "velero.io/pvc-name"

	// PVCNamespaceNameLabel is "namespace.name" of the volume claim that the result of a data
	// upload belongs to.
	PVCNamespaceNameLabel = "velero.io/pvc-namespace-name"

	// AsyncOperationIDLabel is the id of the plugin operation that a data path resource carries
	// out.
	AsyncOperationIDLabel = "velero.io/async-operation-id"

	// ResourceUsageLabel says what a ConfigMap that the server made is for.
	ResourceUsageLabel = "velero.io/resource-usage"

	// DataUploadLabel of a pod is the name of the DataUpload that it works for.
	DataUploadLabel = "velero.io/data-upload"

	// DataUploadSnapshotInfoLabel marks a ConfigMap that keeps the snapshots of data uploads for
	// their deletion when it is "true".
	DataUploadSnapshotInfoLabel = "velero.io/data-upload-snapshot-info"

	// DataUploadNameAnnotation of a volume claim is "namespace/name" of its DataUpload.
	DataUploadNameAnnotation = "velero.io/data-upload-name"

	// DataDownloadLabel of a pod is the name of the DataDownload that it works for.
	DataDownloadLabel = "velero.io/data-download"

	// PVBLabel of a pod is the name of the PodVolumeBackup that it works for.
	PVBLabel = "velero.io/pod-volume-backup"

	// PVRLabel of a pod is the name of the PodVolumeRestore that it works for.
	PVRLabel = "velero.io/pod-volume-restore"

	// ExposeOnGoingLabel marks a data path resource that is being prepared when it is "true".
	ExposeOnGoingLabel = "velero.io/expose-on-going"

	// ExposerPodGroupLabel of a pod says which kind of preparation it was made by.
	ExposerPodGroupLabel = "velero.io/exposer-pod-group"

	// PodVolumeOperationTimeoutAnnotation of a Backup or Restore is the limit of its pod volume
	// operations, as a duration, in place of the server's.
	PodVolumeOperationTimeoutAnnotation = "velero.io/pod-volume-timeout"

	// PodVolumeSnapshotAnnotationPrefix, followed by the name of a volume, was the annotation of a
	// pod that held the id of the volume's snapshot. Old backups have it.
	PodVolumeSnapshotAnnotationPrefix = "snapshot.velero.io/"

	// DynamicPVRestoreLabel ties a volume that is provisioned during a restore to its claim.
	DynamicPVRestoreLabel = "velero.io/dynamic-pv-restore"

	// OriginalPVNameAnnotation of a restored volume is its name in the backup, where it was
	// renamed.
	OriginalPVNameAnnotation = "velero.io/original-pv-name"
)

// Labels and annotations of CSI volumes and their snapshots.
const (
	// VolumeSnapshotLabel of a volume claim is the name of its VolumeSnapshot.
	VolumeSnapshotLabel = "velero.io/volume-snapshot-name"

	// VolumeSnapshotHandleAnnotation is the storage system's handle of a snapshot.
	VolumeSnapshotHandleAnnotation = "velero.io/csi-volumesnapshot-handle"

	// VolumeSnapshotRestoreSizeAnnotation is the size of a volume restored from a snapshot, as a
	// Kubernetes quantity.
	VolumeSnapshotRestoreSizeAnnotation = "velero.io/csi-volumesnapshot-restore-size"

	// DriverNameAnnotation is the name of the CSI driver that made a snapshot.
	DriverNameAnnotation = "velero.io/csi-driver-name"

	// VSCDeletionPolicyAnnotation is the deletion policy of a snapshot's content.
	VSCDeletionPolicyAnnotation = "velero.io/csi-vsc-deletion-policy"

	// VolumeGroupSnapshotHandleAnnotation is the storage system's handle of a group snapshot.
	VolumeGroupSnapshotHandleAnnotation = "velero.io/csi-volumegroupsnapshot-handle"

	// VolumeSnapshotClassKey chooses a VolumeSnapshotClass: as a label of the class that is to be
	// used for its driver, as an annotation of a volume claim with the name of the class, and,
	// followed by "_" and a driver, as an annotation of a Backup with the name of the class.
	VolumeSnapshotClassKey = "velero.io/csi-volumesnapshot-class"

	// VolumeGroupSnapshotClassKey chooses a VolumeGroupSnapshotClass: as a label of the class that
	// is to be used for its driver and, followed by "_" and a driver, as an annotation of a Backup
	// with the name of the class.
	VolumeGroupSnapshotClassKey = "velero.io/csi-volumegroupsnapshot-class"

	// VolumeGroupSnapshotClassPVCAnnotation of a volume claim is the name of the
	// VolumeGroupSnapshotClass to use. Mind the spelling, which differs from
	// VolumeGroupSnapshotClassKey.
	VolumeGroupSnapshotClassPVCAnnotation = "velero.io/csi-volume-group-snapshot-class"

	// SkippedNoCSIPVAnnotation is set by the backup item action for volume claims on a claim whose
	// volume is not a CSI volume, and so was left to other means.
	SkippedNoCSIPVAnnotation = "backup.velero.io/skipped-no-csi-pv"
)

// Finalizers.
const (
	// RestoreExternalResourcesFinalizer keeps a Restore until its files in the bucket are deleted.
	RestoreExternalResourcesFinalizer = "restores.velero.io/external-resources-finalizer"

	// DataUploadDownloadFinalizer keeps a DataUpload or DataDownload until its work has ended.
	DataUploadDownloadFinalizer = "velero.io/data-upload-download-finalizer"

	// PodVolumeFinalizer keeps a PodVolumeBackup or PodVolumeRestore until its work has ended.
	PodVolumeFinalizer = "velero.io/pod-volume-finalizer"

	// VolumeSnapshotContentProtectFinalizer keeps a VolumeSnapshotContent while its snapshot is
	// being moved.
	VolumeSnapshotContentProtectFinalizer = "velero.io/volume-snapshot-content-protect-finalizer"
)
