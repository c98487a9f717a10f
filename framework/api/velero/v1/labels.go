package v1

import (
	"crypto/sha256"
	"encoding/hex"
)

// MaxLabelValueLength is the number of bytes that Kubernetes allows in a label's value.
const MaxLabelValueLength = 63

// ValidLabelValue returns value unchanged if it is short enough for a label. Otherwise it returns the
// first 57 bytes of value, followed by the first 6 hexadecimal digits of its SHA-256 hash, so that long
// names with a common prefix get different labels. Use it to set and to look up labels whose values are
// names of backups, restores, schedules or locations.
func ValidLabelValue(value string) string {
	if len(value) <= MaxLabelValueLength {
		return value
	}
	const digits = 6
	sum := sha256.Sum256([]byte(value))
	return value[:MaxLabelValueLength-digits] + hex.EncodeToString(sum[:])[:digits]
}

// Labels for the backup, restore, schedule or location that an object belongs to. Names are converted
// with ValidLabelValue.
const (
	// BackupNameLabel is the name of the Backup that an object was created for.
	BackupNameLabel = "velero.io/backup-name"

	// BackupUIDLabel is the UID of the Backup that an object was created for.
	BackupUIDLabel = "velero.io/backup-uid"

	// RestoreNameLabel is the name of the Restore that created an object.
	RestoreNameLabel = "velero.io/restore-name"

	// RestoreUIDLabel is the UID of the Restore that an object was created for.
	RestoreUIDLabel = "velero.io/restore-uid"

	// ScheduleNameLabel is the name of the Schedule that created a Backup.
	ScheduleNameLabel = "velero.io/schedule-name"

	// StorageLocationLabel is the name of the BackupStorageLocation of a Backup or repository.
	StorageLocationLabel = "velero.io/storage-location"

	// VolumeNamespaceLabel is the namespace whose volumes a backup repository holds.
	VolumeNamespaceLabel = "velero.io/volume-namespace"

	// RepositoryTypeLabel is the type of a backup repository, e.g. kopia.
	RepositoryTypeLabel = "velero.io/repository-type"

	// RepositoryNameLabel is the name of the BackupRepository that a maintenance job works on.
	RepositoryNameLabel = "velero.io/repo-name"

	// DataMoverAnnotation of a BackupRepository is the name of the data mover that has made the repository, unless it is
	// the built-in one for repositories of its type.
	DataMoverAnnotation = "cleat.dev/data-mover"

	// GCFailureLabel marks a Backup that has expired but could not be garbage-collected. Its value is
	// the reason.
	GCFailureLabel = "velero.io/gc-failure"

	// ExpiredAnnotation has when a backup has expired. It marks a DeleteBackupRequest of the server itself.
	ExpiredAnnotation = "cleat.dev/expired"

	// FilesAnnotation of a Backup has the digests and sizes of its files, as the server has stored them. What files name
	// that somebody else has written is not deleted outside of the bucket.
	FilesAnnotation = "cleat.dev/files"

	// PendingFilesAnnotation of a Backup that is not final has the digests and sizes of those files that the server is
	// about to store again. Each of them is as FilesAnnotation says or as this one does.
	PendingFilesAnnotation = "cleat.dev/pending-files"

	// WriteOnceAnnotation of a BackupStorageLocation, with the value "true", says that each key of its bucket can be
	// written only once.
	WriteOnceAnnotation = "cleat.dev/write-once"

	// StagedAnnotation of a Backup that is not final has the number of the attempt whose files are staged beside their
	// keys, because its location writes each key once. It stays if they were not published.
	StagedAnnotation = "cleat.dev/staged"

	// OperationsAnnotation of a Backup or Restore has the digest of its asynchronous operations. Others are not followed.
	OperationsAnnotation = "cleat.dev/operations-digest"
	// ItemsAnnotation of a Restore has the digest of the file with what became of its items. A rehearsal reads no other.
	ItemsAnnotation = "cleat.dev/items-digest"

	// ForceAnnotation of a DeleteBackupRequest, "true", deletes the files of the backup even if its velero-backup.json is
	// damaged and nothing else proves that they belong to it.
	ForceAnnotation = "cleat.dev/force"

	// DeleteSnapshotsAnnotation of a Backup is how a user decides about what its files name outside of the bucket, when
	// nothing proves that it belongs to the Backup: "true" has it deleted with the Backup, "false" lets it stay.
	DeleteSnapshotsAnnotation = "cleat.dev/delete-snapshots"

	// PluginConfigLabel marks a ConfigMap in the server's namespace as the configuration of the
	// plugin that another label names.
	PluginConfigLabel = "velero.io/plugin-config"
)

// Labels and annotations with which users control what is backed up and restored.
const (
	// ExcludeFromBackupLabel excludes an object, or a namespace with its objects, from every backup
	// if it is "true".
	ExcludeFromBackupLabel = "velero.io/exclude-from-backup"

	// SkipFromBackupAnnotation is set to "true" by a backup item action to exclude its item from the
	// backup.
	SkipFromBackupAnnotation = "velero.io/skip-from-backup"

	// MustIncludeAdditionalItemsAnnotation is set to "true" by a backup item action to include its
	// additional items even if the filters of the backup exclude them.
	MustIncludeAdditionalItemsAnnotation = "backup.velero.io/must-include-additional-items"

	// MustIncludeAdditionalItemsRestoreAnnotation is set to "true" by a restore item action to restore
	// its additional items even if the filters of the restore exclude them. It is removed from the
	// item.
	MustIncludeAdditionalItemsRestoreAnnotation = "restore.velero.io/must-include-additional-items"

	// RestoreStatusAnnotation specifies for one object, as "true" or "false", whether its status is
	// restored. It overrides spec.restoreStatus.
	RestoreStatusAnnotation = "velero.io/restore-status"

	// VolumesToBackupAnnotation of a pod is a comma-separated list of its volumes that are backed up
	// from the file system.
	VolumesToBackupAnnotation = "backup.velero.io/backup-volumes"

	// VolumesToExcludeAnnotation of a pod is a comma-separated list of its volumes that are not backed
	// up from the file system.
	VolumesToExcludeAnnotation = "backup.velero.io/backup-volumes-excludes"

	// DefaultVGSLabelKey of a volume claim is the group by which volume claims are grouped into one snapshot, unless
	// spec.volumeGroupSnapshotLabelKey names another.
	DefaultVGSLabelKey = "velero.io/volume-group"
)

// Annotations of a Backup that describe its source.
const (
	// GlobalVolumePoliciesAnnotation is the name of the ConfigMap with volume policies for all backups
	// that contributed to this one.
	GlobalVolumePoliciesAnnotation = "velero.io/global-backup-volume-policy-configmap"

	// SourceClusterK8sGitVersionAnnotation is the version of the cluster, e.g. v1.36.3.
	SourceClusterK8sGitVersionAnnotation = "velero.io/source-cluster-k8s-gitversion"

	// SourceClusterK8sMajorVersionAnnotation is the major version of the cluster, e.g. 1.
	SourceClusterK8sMajorVersionAnnotation = "velero.io/source-cluster-k8s-major-version"

	// SourceClusterK8sMinorVersionAnnotation is the minor version of the cluster, e.g. 36.
	SourceClusterK8sMinorVersionAnnotation = "velero.io/source-cluster-k8s-minor-version"

	// ResourceTimeoutAnnotation is the server's timeout for waiting for resources, as a duration such
	// as 10m0s. Plugins read it.
	ResourceTimeoutAnnotation = "velero.io/resource-timeout"
)

// Labels and annotations of pod volume backups and restores, data uploads and data downloads, and
// of the pods and objects created for them.
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

	// ResourceUsageLabel is the purpose of a ConfigMap that the server has created.
	ResourceUsageLabel = "velero.io/resource-usage"

	// DataUploadLabel of a pod is the name of the DataUpload that it serves.
	DataUploadLabel = "velero.io/data-upload"

	// DataUploadSnapshotInfoLabel marks a ConfigMap with the snapshots of data uploads, which is used
	// to delete them, if it is "true".
	DataUploadSnapshotInfoLabel = "velero.io/data-upload-snapshot-info"

	// DataUploadNameAnnotation of a volume claim is "namespace/name" of its DataUpload.
	DataUploadNameAnnotation = "velero.io/data-upload-name"

	// DataDownloadLabel of a pod is the name of the DataDownload that it serves.
	DataDownloadLabel = "velero.io/data-download"

	// PVBLabel of a pod is the name of the PodVolumeBackup that it serves.
	PVBLabel = "velero.io/pod-volume-backup"

	// PVRLabel of a pod is the name of the PodVolumeRestore that it serves.
	PVRLabel = "velero.io/pod-volume-restore"

	// ExposeOnGoingLabel marks a data path resource that is being prepared if it is "true".
	ExposeOnGoingLabel = "velero.io/expose-on-going"

	// ExposerPodGroupLabel of a pod is the kind of preparation that has created it.
	ExposerPodGroupLabel = "velero.io/exposer-pod-group"

	// PodVolumeOperationTimeoutAnnotation of a Backup or Restore is the timeout of its pod volume
	// operations, as a duration. It overrides the server's timeout.
	PodVolumeOperationTimeoutAnnotation = "velero.io/pod-volume-timeout"

	// PodVolumeSnapshotAnnotationPrefix, followed by the name of a volume, was the annotation of a
	// pod that held the id of the volume's snapshot. Old backups have it.
	PodVolumeSnapshotAnnotationPrefix = "snapshot.velero.io/"

	// DynamicPVRestoreLabel links a volume that is provisioned during a restore to its claim.
	DynamicPVRestoreLabel = "velero.io/dynamic-pv-restore"

	// OriginalPVNameAnnotation of a restored volume is its name in the backup, if it was
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

	// DriverNameAnnotation is the name of the CSI driver that created a snapshot.
	DriverNameAnnotation = "velero.io/csi-driver-name"

	// VSCDeletionPolicyAnnotation is the deletion policy of a snapshot's content.
	VSCDeletionPolicyAnnotation = "velero.io/csi-vsc-deletion-policy"

	// VolumeGroupSnapshotHandleAnnotation is the storage system's handle of a group snapshot.
	VolumeGroupSnapshotHandleAnnotation = "velero.io/csi-volumegroupsnapshot-handle"

	// VolumeSnapshotClassKey selects a VolumeSnapshotClass: as a label of the class to use
	// for its driver, as an annotation of a volume claim with the name of the class, and,
	// followed by "_" and a driver, as an annotation of a Backup with the name of the class.
	VolumeSnapshotClassKey = "velero.io/csi-volumesnapshot-class"

	// VolumeGroupSnapshotClassKey selects a VolumeGroupSnapshotClass: as a label of the class to
	// use for its driver and, followed by "_" and a driver, as an annotation of a Backup
	// with the name of the class.
	VolumeGroupSnapshotClassKey = "velero.io/csi-volumegroupsnapshot-class"

	// VolumeGroupSnapshotClassPVCAnnotation of a volume claim is the name of the
	// VolumeGroupSnapshotClass to use. Its spelling differs from
	// VolumeGroupSnapshotClassKey.
	VolumeGroupSnapshotClassPVCAnnotation = "velero.io/csi-volume-group-snapshot-class"

	// SnapshotOfClaimAnnotation of a VolumeSnapshot that was taken in a group is the claim of which it is. Its spec does
	// not say that, because it names a VolumeSnapshotContent.
	SnapshotOfClaimAnnotation = "cleat.dev/snapshot-of-claim"

	// TakenForAnnotation of the content of a snapshot, or of a group of them, proves that the snapshot was taken for the
	// backup whose UID is in the label velero.io/backup-uid. Servers delete no content by the label alone.
	TakenForAnnotation = "cleat.dev/taken-for"

	// StoredContentAnnotation of a restored VolumeSnapshotContent is its name in the backup.
	StoredContentAnnotation = "cleat.dev/stored-content"

	// SkippedNoCSIPVAnnotation is set by the backup item action for volume claims on a claim whose
	// volume is not a CSI volume and that it has therefore skipped.
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
