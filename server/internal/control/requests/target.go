package requests

import (
	"context"
	"errors"
	"fmt"
	"io"

	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
)

// Open returns a function that opens files, for download.Server. It reads through the live client of the cluster, so
// that it also works in a server that does not lead.
func Open(cluster *run.Cluster, stores run.Stores) func(ctx context.Context, file store.File) (io.ReadCloser, error) {
	return func(ctx context.Context, file store.File) (io.ReadCloser, error) {
		objects, err := openTarget(ctx, cluster.Live, stores, cluster.Namespace, file.DownloadTarget)
		if err != nil {
			return nil, err
		}
		return objects.Download(ctx, file)
	}
}

// errNothingStored is returned for a file of a backup or restore that has not stored anything and may never do so.
var errNothingStored = errors.New("nothing is stored")

// openTarget opens the location of the backup that a target belongs to. The error wraps errNothingStored if the backup
// or restore was not begun.
func openTarget(
	ctx context.Context, from client.Reader, stores run.Stores, namespace string, target velerov1.DownloadTarget,
) (*store.Store, error) {
	get := func(what, name string, object client.Object) error {
		if err := kubeapi.CheckName("the name of a "+what, name); err != nil {
			return err
		}
		if err := from.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
			return fmt.Errorf("get %s %s: %w", what, name, err)
		}
		return nil
	}
	name := target.Name
	if target.Kind.OfRestore() {
		var restore velerov1.Restore
		if err := get("restore", name, &restore); err != nil {
			return nil, err
		}
		if phase := run.RestorePhase(&restore); !velerov1.IsDryRun(&restore) &&
			(phase == velerov1.RestorePhaseNew || phase == velerov1.RestorePhaseFailedValidation) {
			return nil, fmt.Errorf("restore %s is %s: %w", name, phase, errNothingStored)
		}
		name = restore.Spec.BackupName
	}
	var backup velerov1.Backup
	if err := get("backup", name, &backup); err != nil {
		return nil, err
	}
	if !target.Kind.OfRestore() && run.NeverStored(&backup) && !velerov1.IsDryRun(&backup) {
		return nil, fmt.Errorf("backup %s is %s: %w", name, run.BackupPhase(&backup), errNothingStored)
	}
	var location velerov1.BackupStorageLocation
	if err := get("backup storage location", backup.Spec.StorageLocation, &location); err != nil {
		return nil, err
	}
	objects, err := stores.Open(ctx, &location)
	if err != nil {
		return nil, err
	}
	return objects.Of(&backup), nil
}
