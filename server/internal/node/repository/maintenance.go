package repository

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/versioning/datamover"
)

// deadAfter is how long a claim is believed that no server renews.
const deadAfter = 5 * time.Minute

// AwaitMaintenance implements node.Repositories. The status of a load says that its data is moved before
// AwaitMaintenance reads the claim, and the server reads the loads after it has written the claim: so one of both
// waits.
func (o *Opener) AwaitMaintenance(
	ctx context.Context, mover datamover.Mover, locationName, namespace string, wait func(waits bool) error,
) error {
	claim, err := o.claimed(ctx, mover, locationName, namespace)
	if err != nil || claim == nil {
		return err
	}
	for claim != nil {
		if err := wait(true); err != nil {
			return err
		}
		seen, since := claim.Renewed, time.Now()
		for claim != nil && time.Since(since) < deadAfter {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(poll):
			}
			if claim, err = o.claimed(ctx, mover, locationName, namespace); err != nil {
				return err
			}
			if claim != nil && !claim.Renewed.Equal(seen) {
				seen, since = claim.Renewed, time.Now()
			}
		}
		if err := wait(false); err != nil {
			return err
		}
		if claim != nil {
			if o.Log != nil {
				o.Log.Warn("no server looks after the maintenance of a repository; it is not waited for any more", "job", claim.Job)
			}
			return nil
		}
		// Another claim may have been written before the status of the load.
		if claim, err = o.claimed(ctx, mover, locationName, namespace); err != nil {
			return err
		}
	}
	return nil
}

// claimed returns the claim of maintenance during which nothing else may work with a repository, nil if there is none.
func (o *Opener) claimed(
	ctx context.Context, mover datamover.Mover, locationName, namespace string,
) (*run.Maintenance, error) {
	usual := usualName(namespace, locationName, engineOf(mover))
	for _, name := range []string{usual, distinctName(usual, namespace, locationName)} {
		var known velerov1.BackupRepository
		err := o.Cluster.Live.Get(ctx, client.ObjectKey{Namespace: o.Cluster.Namespace, Name: name}, &known)
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		if err == nil && known.Spec.VolumeNamespace == namespace && known.Spec.BackupStorageLocation == locationName {
			if claim := run.MaintenanceOf(&known); claim != nil && claim.Alone {
				return claim, nil
			}
			return nil, nil //nolint:nilnil // there is none and that is right
		}
	}
	return nil, nil //nolint:nilnil // likewise
}
