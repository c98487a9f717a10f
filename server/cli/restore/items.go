package restore

import (
	"context"
	"errors"
	"fmt"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

// find connects to the cluster, and returns the restore of a name there.
func find(ctx context.Context, a *command.App, name string) (*command.Cluster, *velerov1.Restore, error) {
	cluster, err := a.Cluster.Connect()
	if err != nil {
		return nil, nil, err
	}
	r := new(velerov1.Restore)
	if err := cluster.Get(ctx, cluster.Key(name), r); err != nil {
		return nil, nil, err
	}
	return cluster, r, nil
}

// isAtWork reports whether a server works on the items of a restore, or will.
func isAtWork(r *velerov1.Restore) bool {
	if velerov1.IsDryRun(r) {
		return !run.DryRunEnded(r)
	}
	phase := run.RestorePhase(r)
	return phase == velerov1.RestorePhaseNew || phase == velerov1.RestorePhaseInProgress
}

// readItems calls use for each item of a restore that has ended.
func readItems(
	ctx context.Context, cluster *command.Cluster, downloads *runs.Downloads, r *velerov1.Restore,
	use func(outcome.Item) error,
) (outcome.Content, error) {
	location, err := cluster.LocationOf(ctx, r.Spec.BackupName)
	if err != nil {
		return outcome.Content{}, err
	}
	content, err := downloads.Items(ctx, cluster, r, location, use)
	if errors.Is(err, runs.ErrNoFile) {
		return content, fmt.Errorf("restore %s has no file about its items: it did not get that far, or its server was "+
			"Velero's or an older cleat", r.Name)
	}
	return content, err
}
