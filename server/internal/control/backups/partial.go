package backups

import (
	"context"
	"errors"
	"fmt"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

// removePartial deletes the files of an interrupted backup except for the log. It keeps those of another backup with
// the same name. The error wraps run.ErrLocationNotFound if the location does not exist any more.
func removePartial(ctx context.Context, c *run.Cluster, stores run.Stores, b *velerov1.Backup) error {
	objects, err := locationOf(ctx, c, stores, b)
	if err != nil {
		return err
	}
	return objects.RemovePartial(ctx, b.Name, b.UID)
}

// removeTraces deletes the log as well, after the backup was deleted.
func removeTraces(ctx context.Context, c *run.Cluster, stores run.Stores, b *velerov1.Backup) error {
	objects, err := locationOf(ctx, c, stores, b)
	if err != nil {
		return err
	}
	return objects.RemoveTraces(ctx, b.Name, b.UID)
}

// errOtherBackup is returned for a backup under whose name the object storage holds another one, which must not be
// changed.
var errOtherBackup = errors.New("the object storage holds another backup of that name, which stays as it is")

// mustOwn returns errOtherBackup unless the stored backup is b. One that has no velero-backup.json was never stored,
// and one whose file names no UID may be b.
func mustOwn(ctx context.Context, b *velerov1.Backup, objects *store.Store) error {
	switch uid, err := objects.BackupUID(ctx, b.Name); {
	case errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("it was never stored: %w", err)
	case err != nil:
		return err
	case uid != "" && uid != b.UID:
		return errOtherBackup
	}
	return nil
}

// locationOf opens the location of a backup, as its files are found in it.
func locationOf(ctx context.Context, c *run.Cluster, stores run.Stores, b *velerov1.Backup) (*store.Store, error) {
	location, err := c.GetLocation(ctx, b.Spec.StorageLocation)
	if err != nil {
		return nil, err
	}
	objects, err := stores.Open(ctx, location)
	if err != nil {
		return nil, err
	}
	return objects.Of(b), nil
}
