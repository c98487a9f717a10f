package controller

import (
	"context"
	"fmt"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
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

// removePartial removes from the bucket what a backup left there that was cut off. Data of another
// backup of the same name stays. It is errNoLocation when the location does not exist any more.
func (c *Cluster) removePartial(ctx context.Context, stores Stores, b *velerov1.Backup) error {
	location, err := c.getLocation(ctx, b.Spec.StorageLocation)
	if err != nil {
		return err
	}
	objects, err := stores.Open(ctx, location)
	if err != nil {
		return fmt.Errorf("open backup storage location %s: %w", location.Name, err)
	}
	return objects.RemovePartial(ctx, b.Name, b.UID)
}
