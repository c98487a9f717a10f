package backups

import (
	"context"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/run"
	"github.com/cleat-dev/cleat/server/store"
)

// removePartial deletes the files of an interrupted backup except for the log. It keeps those of another backup with the
// same name. The error wraps run.ErrLocationNotFound if the location does not exist any more.
func removePartial(ctx context.Context, c *run.Cluster, stores run.Stores, b *velerov1.Backup) error {
	_, err := removedPartial(ctx, c, stores, b)
	return err
}

// removeTraces deletes the log as well, after the backup was deleted.
func removeTraces(ctx context.Context, c *run.Cluster, stores run.Stores, b *velerov1.Backup) error {
	objects, err := removedPartial(ctx, c, stores, b)
	if err != nil {
		return err
	}
	return deleteOthers(ctx, objects, b.Name)
}

// deleteOthers deletes all files below the name of a backup, unless a backup is stored there.
func deleteOthers(ctx context.Context, objects *store.Store, name string) error {
	stored, err := objects.BackupExists(ctx, name)
	if err != nil || stored {
		return err
	}
	return objects.DeleteBackup(ctx, name)
}

func removedPartial(ctx context.Context, c *run.Cluster, stores run.Stores, b *velerov1.Backup) (*store.Store, error) {
	location, err := c.GetLocation(ctx, b.Spec.StorageLocation)
	if err != nil {
		return nil, err
	}
	objects, err := stores.Open(ctx, location)
	if err != nil {
		return nil, err
	}
	return objects, objects.RemovePartial(ctx, b.Name, b.UID)
}
