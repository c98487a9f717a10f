package run

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/kube/kubeapi"
)

// Recovery fails the backups and restores that a former server left InProgress, if the controller that would take them
// up is disabled. It runs before the controllers start. Objects in all other phases are continued by their
// controllers.
type Recovery struct {
	*Cluster
	Backups, Restores bool // which of the two
	Log               hclog.Logger
	Now               func() time.Time
}

// Run marks InProgress backups and restores as Failed. It repeats transient failures until ctx ends.
func (r *Recovery) Run(ctx context.Context) error {
	backups, restores := new(velerov1.BackupList), new(velerov1.RestoreList)
	if r.Backups {
		if err := r.list(ctx, backups); err != nil {
			return err
		}
	}
	if r.Restores {
		if err := r.list(ctx, restores); err != nil {
			return err
		}
	}
	for i := range backups.Items {
		if err := r.backup(ctx, &backups.Items[i]); err != nil {
			return err
		}
	}
	for i := range restores.Items {
		if err := r.restore(ctx, &restores.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// list reads from the API server and repeats transient failures.
func (r *Recovery) list(ctx context.Context, list client.ObjectList) error {
	backoff := kubeapi.Backoff()
	for {
		err := r.Live.List(ctx, list, client.InNamespace(r.Namespace))
		if err == nil {
			return nil
		}
		if kubeapi.Transient(err) {
			err = kubeapi.Pause(ctx, backoff, err)
		}
		if err != nil {
			return fmt.Errorf("list the runs that a former server left in progress: %w", err)
		}
	}
}

// backup fails one backup. The finalizer of backups deletes its files.
func (r *Recovery) backup(ctx context.Context, b *velerov1.Backup) error {
	if BackupPhase(b) != velerov1.BackupPhaseInProgress {
		return nil
	}
	reason := interrupted("backup", 1)
	err := r.AdvanceBackup(ctx, b, func(b *velerov1.Backup) error {
		FailedBackup(reason, r.Now())(b)
		MarkPartialData(b)
		return nil
	})
	return r.settled("backup", client.ObjectKeyFromObject(b).String(), reason, err)
}

func (r *Recovery) restore(ctx context.Context, restore *velerov1.Restore) error {
	if RestorePhase(restore) != velerov1.RestorePhaseInProgress {
		return nil
	}
	reason := interrupted("restore", 1)
	err := r.AdvanceRestore(ctx, restore, func(restore *velerov1.Restore) error {
		FailedRestore(reason, r.Now())(restore)
		return nil
	})
	return r.settled("restore", client.ObjectKeyFromObject(restore).String(), reason, err)
}

// settled logs the end of one object. It is not an error that the object was deleted or changed meanwhile, or cannot
// be written.
func (r *Recovery) settled(kind, name string, reason, err error) error {
	switch {
	case err == nil:
		r.Log.Warn(reason.Error(), kind, name)
	case Superseded(err):
	case Refused(err): // the others are processed all the same
		r.Log.Error("could not mark it as Failed; the next server tries again", kind, name, "error", err)
	default:
		return fmt.Errorf("mark %s %s as Failed: %w", kind, name, err)
	}
	return nil
}
