package controller

import (
	"context"
	"fmt"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/store"
)

// uncleanAnnotation marks a Failed backup some of whose data may still be in the bucket. It is set
// by the write that says Failed, so that it cannot get lost, and removed with the data by the
// backup finalizer, which tries until the object storage lets it.
const uncleanAnnotation = "cleat.dev/partial-data"

func markUnclean(b *velerov1.Backup) {
	if b.Annotations == nil {
		b.Annotations = make(map[string]string)
	}
	b.Annotations[uncleanAnnotation] = "to-be-removed"
}

func isUnclean(b *velerov1.Backup) bool {
	return b.Annotations[uncleanAnnotation] != ""
}

// removePartial removes from the bucket what a backup left there that was cut off, but for the log.
// Data of another backup of the same name stays. It is errNoLocation when the location does not
// exist any more.
func (c *Cluster) removePartial(ctx context.Context, stores Stores, b *velerov1.Backup) error {
	_, err := c.removedPartial(ctx, stores, b)
	return err
}

// removeTraces removes the log as well, for a backup that nobody will ask after.
func (c *Cluster) removeTraces(ctx context.Context, stores Stores, b *velerov1.Backup) error {
	objects, err := c.removedPartial(ctx, stores, b)
	if err != nil {
		return err
	}
	another, err := objects.BackupExists(ctx, b.Name)
	if err != nil || another {
		return err
	}
	return objects.DeleteBackup(ctx, b.Name)
}

func (c *Cluster) removedPartial(ctx context.Context, stores Stores, b *velerov1.Backup) (*store.Store, error) {
	location, err := c.getLocation(ctx, b.Spec.StorageLocation)
	if err != nil {
		return nil, err
	}
	objects, err := stores.Open(ctx, location)
	if err != nil {
		return nil, fmt.Errorf("open backup storage location %s: %w", location.Name, err)
	}
	return objects, objects.RemovePartial(ctx, b.Name, b.UID)
}
