package rehearsals

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/bucket/store"
	"github.com/cleat-dev/cleat/server/internal/bucket/trust"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

// Vouched finds the backups that may be rehearsed: those that this cluster has made, and those that a trusted key has
// signed. Whoever can write to the bucket could have any image run otherwise.
type Vouched struct {
	*run.Cluster
	Stores   run.Stores
	Ring     func(ctx context.Context) trust.Ring // the keys whose signatures are accepted
	SpoolDir string                               // for files of a backup while they are read
}

// errBackup is returned for a backup that cannot be rehearsed.
var errBackup = errors.New("the backup cannot be rehearsed")

// backup opens the location of the backup of a rehearsal. The error wraps errBackup if it cannot be rehearsed.
func (v *Vouched) backup(ctx context.Context, restore *velerov1.Restore) (*store.Store, *velerov1.Backup, error) {
	backup := new(velerov1.Backup)
	err := v.Live.Get(ctx, client.ObjectKey{Namespace: restore.Namespace, Name: restore.Spec.BackupName}, backup)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil, fmt.Errorf("%w: backup %s does not exist", errBackup, restore.Spec.BackupName)
	case err != nil:
		return nil, nil, fmt.Errorf("get backup %s: %w", restore.Spec.BackupName, err)
	}
	if phase := run.BackupPhase(backup); !phase.Restorable() {
		return nil, nil, fmt.Errorf("%w: backup %s is %s, want Completed or PartiallyFailed", errBackup, backup.Name, phase)
	}
	objects, err := v.open(ctx, backup)
	return objects, backup, err
}

func (v *Vouched) open(ctx context.Context, backup *velerov1.Backup) (*store.Store, error) {
	location, err := v.GetLocation(ctx, backup.Spec.StorageLocation)
	if errors.Is(err, run.ErrLocationNotFound) {
		return nil, fmt.Errorf("%w: %w", errBackup, err)
	}
	if err != nil {
		return nil, err
	}
	if problem := run.LocationProblem(location); problem != "" {
		return nil, fmt.Errorf("%w: %s", errBackup, problem)
	}
	return v.Stores.Open(ctx, location)
}

// guarded returns the location of the backup of a rehearsal, which reads only files that the backup certainly has. The
// error wraps errBackup if it cannot be rehearsed.
func (v *Vouched) guarded(ctx context.Context, restore *velerov1.Restore) (*store.Store, error) {
	objects, backup, err := v.backup(ctx, restore)
	if err != nil {
		return nil, err
	}
	sums, err := v.Ring(ctx).Vouch(ctx, objects, backup)
	if errors.Is(err, trust.ErrUnknownOrigin) {
		return nil, fmt.Errorf("%w: %w", errBackup, err)
	}
	if err != nil {
		return nil, err
	}
	return objects.Guarded(backup.Name, sums, v.SpoolDir), nil
}

// maxAsked bounds the backups whose signatures are looked at to find the newest one that may be rehearsed.
const maxAsked = 20

// newest returns the first of some backups, of which the newest comes first, that may be rehearsed, or nil. refused is
// the newest one that may not, or nil.
func (v *Vouched) newest(ctx context.Context, backups []velerov1.Backup) (found, refused *velerov1.Backup, err error) {
	ring := v.Ring(ctx)
	asked := 0
	for i := range backups {
		one := &backups[i]
		if _, ok := trust.MadeHere(one); ok {
			return one, refused, nil
		}
		if asked++; len(ring) > 0 && asked <= maxAsked {
			objects, err := v.open(ctx, one)
			if err == nil {
				_, err = ring.Vouch(ctx, objects, one)
			}
			switch {
			case err == nil:
				return one, refused, nil
			case !errors.Is(err, errBackup) && !errors.Is(err, trust.ErrUnknownOrigin):
				return nil, refused, err
			}
		}
		if refused == nil {
			refused = one
		}
	}
	return nil, refused, nil
}
