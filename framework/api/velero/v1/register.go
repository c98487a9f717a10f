package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of all resources in this package.
const GroupName = "velero.io"

// SchemeGroupVersion is the group and version under which AddToScheme registers the types.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1"}

// Kind returns the given kind, e.g. "Backup", with the group velero.io.
func Kind(kind string) schema.GroupKind {
	return SchemeGroupVersion.WithKind(kind).GroupKind()
}

// Resource returns the given plural resource name, e.g. "backups", with the group velero.io.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

// AddToScheme adds the kinds of this package, their lists and the meta types of the group (list,
// watch and delete options) to scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	builder := runtime.NewSchemeBuilder(addKnownTypes)
	return builder.AddToScheme(scheme)
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&Backup{}, &BackupList{},
		&BackupRepository{}, &BackupRepositoryList{},
		&BackupStorageLocation{}, &BackupStorageLocationList{},
		&DeleteBackupRequest{}, &DeleteBackupRequestList{},
		&DownloadRequest{}, &DownloadRequestList{},
		&PodVolumeBackup{}, &PodVolumeBackupList{},
		&PodVolumeRestore{}, &PodVolumeRestoreList{},
		&Restore{}, &RestoreList{},
		&Schedule{}, &ScheduleList{},
		&ServerStatusRequest{}, &ServerStatusRequestList{},
		&VolumeSnapshotLocation{}, &VolumeSnapshotLocationList{},
	)
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}
