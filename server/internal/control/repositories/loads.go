package repositories

import (
	"cmp"
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	velerov2alpha1 "github.com/cleat-dev/cleat/framework/api/velero/v2alpha1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

// MoverOf returns the name of the data mover of a repository.
func MoverOf(of *velerov1.BackupRepository) string {
	return cmp.Or(of.Annotations[velerov1.DataMoverAnnotation], velerov1.MoverOf(engineOf(of)))
}

// moved returns a load of a repository whose data is being moved, "" if there is none. It reads from the API server.
func (r *Controller) moved(ctx context.Context, of *velerov1.BackupRepository) (string, error) {
	var (
		backups   velerov1.PodVolumeBackupList
		restores  velerov1.PodVolumeRestoreList
		uploads   velerov2alpha1.DataUploadList
		downloads velerov2alpha1.DataDownloadList
	)
	for _, list := range []client.ObjectList{&backups, &restores, &uploads, &downloads} {
		if err := r.Live.List(ctx, list, client.InNamespace(r.Namespace)); err != nil {
			return "", fmt.Errorf("list the loads for which the maintenance of a repository waits: %w", err)
		}
	}
	found := ""
	look := func(kind string, object client.Object, status *velerov1.LoadStatus, mover, location, namespace string) {
		moving := (status.Phase == velerov1.LoadPhaseInProgress || status.Phase == velerov1.LoadPhaseCanceling) &&
			status.Message != run.WaitsForMaintenance
		if moving && mover == MoverOf(of) && location == of.Spec.BackupStorageLocation &&
			namespace == of.Spec.VolumeNamespace {
			found = kind + " " + object.GetName()
		}
	}
	for i := range backups.Items {
		l := &backups.Items[i]
		look("PodVolumeBackup", l, &l.Status.LoadStatus, ofUploader(l.Spec.UploaderType), l.Spec.BackupStorageLocation,
			l.Spec.Pod.Namespace)
	}
	for i := range restores.Items {
		l := &restores.Items[i]
		look("PodVolumeRestore", l, &l.Status.LoadStatus, ofUploader(l.Spec.UploaderType), l.Spec.BackupStorageLocation,
			l.Spec.SourceNamespace)
	}
	for i := range uploads.Items {
		l := &uploads.Items[i]
		look("DataUpload", l, &l.Status.LoadStatus, ofDataMover(l.Spec.DataMover), l.Spec.BackupStorageLocation,
			l.Spec.SourceNamespace)
	}
	for i := range downloads.Items {
		l := &downloads.Items[i]
		look("DataDownload", l, &l.Status.LoadStatus, ofDataMover(l.Spec.DataMover), l.Spec.BackupStorageLocation,
			l.Spec.SourceNamespace)
	}
	return found, nil
}

// ofUploader returns the data mover of an uploader.
func ofUploader(uploader velerov1.RepositoryType) string {
	return velerov1.MoverOf(cmp.Or(uploader, velerov1.RepositoryTypeKopia))
}

// ofDataMover returns the data mover that a DataUpload or DataDownload names. Velero's has repositories of kopia.
func ofDataMover(name string) string {
	if velerov1.IsVeleroDataMover(name) {
		return velerov1.KopiaDataMover
	}
	return name
}
