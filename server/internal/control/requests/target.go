package requests

import (
	"context"
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

// openTarget opens the location of the backup that a target belongs to.
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
		name = restore.Spec.BackupName
	}
	var backup velerov1.Backup
	if err := get("backup", name, &backup); err != nil {
		return nil, err
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
