package deletion

import (
	"context"
	"fmt"

	"github.com/hashicorp/go-hclog"

	"github.com/cleat-dev/cleat/server/internal/engine/volumes"
)

// DeleteSnapshots deletes the snapshots of a backup, one after the other. One that cannot be deleted does not keep the
// others. DeleteSnapshots returns Failures if there are such. A deletion that did not succeed is repeated from the
// start.
func DeleteSnapshots(ctx context.Context, open volumes.Open, snapshots []*volumes.Snapshot, log hclog.Logger) error {
	var failures Failures
	for _, s := range snapshots {
		id := s.Status.ProviderSnapshotID
		if id == "" {
			continue // it was never taken
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		plugin, err := open(ctx, s.Spec.Location)
		if err == nil {
			err = plugin.DeleteSnapshot(ctx, id)
		}
		if err != nil {
			log.Error("a snapshot was not deleted", "snapshot", id, "location", s.Spec.Location, "persistentVolume",
				s.Spec.PersistentVolumeName, "error", err)
			failures.add(fmt.Errorf("error deleting snapshot %s of persistent volume %s: %w", id, s.Spec.PersistentVolumeName,
				err))
			continue
		}
		log.Info("deleted a snapshot", "snapshot", id, "location", s.Spec.Location, "persistentVolume",
			s.Spec.PersistentVolumeName)
	}
	if failures.Count > 0 {
		return &failures
	}
	return nil
}

// Merge returns the failures of several steps of a deletion as one error, nil if there are none. An error that is no
// Failures comes first.
func Merge(errs ...error) error {
	var all Failures
	for _, err := range errs {
		failures, ok := err.(*Failures) //nolint:errorlint // a step returns it as it is
		switch {
		case err == nil:
		case !ok:
			return err
		default:
			all.Count += failures.Count
			all.First = append(all.First, failures.First...)
		}
	}
	if all.Count == 0 {
		return nil
	}
	all.First = all.First[:min(len(all.First), maxFailures)]
	return &all
}
