package deletions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

const (
	// waitForRestores is how long a deletion waits until the restores of the backup are deleted, beside an outage of the
	// store.
	waitForRestores = time.Minute
	restoresPoll    = 250 * time.Millisecond
)

// unused refuses to delete a backup while a restore reads it, because the restore would stay incomplete. A restore that
// starts after this check finds the request or is stopped before its backup is deleted.
func (r *Controller) unused(ctx context.Context, request *velerov1.DeleteBackupRequest, backup *velerov1.Backup) error {
	if run.BackupPhase(backup) == velerov1.BackupPhaseDeleting && hasBegun(request) {
		return nil
	}
	restores, err := r.restoresOf(ctx, backup)
	if err != nil {
		return err
	}
	for i := range restores {
		restore := &restores[i]
		phase := run.RestorePhase(restore)
		if restore.DeletionTimestamp == nil && phase != velerov1.RestorePhaseNew && !phase.Terminal() {
			return refusal(fmt.Sprintf("restore %s from this backup is %s; delete the backup when it has ended, or delete the "+
				"restore first", restore.Name, phase))
		}
	}
	return nil
}

// restoresOf returns the restores of a backup. The cache has every restore that this server has begun, but maybe not
// its current phase. So restoresOf asks the API server only if the cache has some.
func (r *Controller) restoresOf(ctx context.Context, backup *velerov1.Backup) ([]velerov1.Restore, error) {
	restores, err := readRestores(ctx, r.Client, backup)
	if err == nil && len(restores) > 0 {
		restores, err = readRestores(ctx, r.Live, backup)
	}
	if err != nil {
		return nil, fmt.Errorf("list the restores of the backup: %w", err)
	}
	return restores, nil
}

func readRestores(ctx context.Context, reader client.Reader, backup *velerov1.Backup) ([]velerov1.Restore, error) {
	var list velerov1.RestoreList
	err := reader.List(ctx, &list, client.InNamespace(backup.Namespace))
	return slices.DeleteFunc(list.Items,
		func(restore velerov1.Restore) bool { return restore.Spec.BackupName != backup.Name }), err
}

// deleteRestores deletes the restores of a backup and waits for the end of their finalizers.
func (r *Controller) deleteRestores(ctx context.Context, record *audit) error {
	ctx, cancel := context.WithTimeoutCause(ctx, waitForRestores+r.StoreOutage,
		errors.New("deleting its restores took too long"))
	defer cancel()
	ticker := time.NewTicker(restoresPoll)
	defer ticker.Stop()
	for {
		restores, err := r.restoresOf(ctx, record.backup)
		if err != nil {
			return err
		}
		var left []string
		for i := range restores {
			restore := &restores[i]
			left = append(left, restore.Name)
			record.restore(restore.Name)
			if restore.DeletionTimestamp != nil {
				continue
			}
			if err := r.Delete(ctx, restore); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("delete restore %s: %w", restore.Name, err)
			}
		}
		if len(left) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("delete restores %v: %w", left, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
