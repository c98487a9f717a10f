package app

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/cleat-dev/cleat/framework"
	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/internal/control/operations"
	"github.com/cleat-dev/cleat/server/internal/control/run"
	"github.com/cleat-dev/cleat/server/internal/engine/operation"
	"github.com/cleat-dev/cleat/server/internal/spec/config"
)

// addOperations adds the monitor of asynchronous operations, and the controllers that follow the operations of backups
// and restores.
func (c *controllers) addOperations(r *registrar) (err error) {
	common, wakes := c.following, new(operations.Wakes)
	c.logs.OnLate(wakes.Wake)
	common.Monitor, err = operation.NewMonitor(operation.NewPlugins(c.host, c.keys), operation.Options{
		Frequency: c.Options.ItemOperationSyncFrequency,
		Limits:    operationLimits(c.File.Operations, c.Options.FSBackupTimeout, c.host.HasRole),
		Ended:     wakes.Wake,
		Notice:    common.Notice,
		Log:       common.Log,
		LogOf:     c.logs.Of,
		Metrics:   c.registry,
	})
	if err != nil {
		return fmt.Errorf("make the monitor of operations: %w", err)
	}
	err = r.mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		common.Monitor.Run(ctx)
		return nil
	}))
	if err != nil {
		return fmt.Errorf("add the monitor of operations: %w", err)
	}
	if !r.isDisabled(run.BackupOperationsController) {
		b := r.builder(run.BackupOperationsController, lightWorkers).For(&velerov1.Backup{},
			builder.WithPredicates(run.UnsettledBackups())).WatchesRawSource(wakes.From(operation.OfBackup))
		r.complete(run.BackupOperationsController, b, &operations.Backups{Common: common})
	}
	if !r.isDisabled(run.RestoreOperationsController) {
		b := r.builder(run.RestoreOperationsController, lightWorkers).For(&velerov1.Restore{}).WatchesRawSource(
			wakes.From(operation.OfRestore),
		)
		r.complete(run.RestoreOperationsController, b, &operations.Restores{Common: common})
	}
	leftovers := &operations.Leftovers{Common: common, Starter: operations.NewStarter(c.host, c.keys)}
	r.complete(leftoversController, leftovers.Setup(r.builder(leftoversController, lightWorkers)), leftovers)
	return nil
}

// leftoversController cannot be disabled: what others have started has to end.
const leftoversController = "operations-leftovers"

// operationLimits returns the limits of the operations of an action. Those on volumes of pods take no longer than
// files.
func operationLimits(
	configured config.Operations, files time.Duration, roles operation.Roles,
) func(action string) operation.Limits {
	return func(action string) operation.Limits {
		limits := configured.Of(action)
		timeout := limits.Timeout.Std()
		ofFiles := roles.Has(action, framework.RolePodVolumes) || roles.Has(action, framework.RolePodVolumeRestores)
		if ofFiles && (timeout <= 0 || files < timeout) {
			timeout = files
		}
		return operation.Limits{Timeout: timeout, Stall: limits.StallTimeout.Std(), Grace: limits.CancelGrace.Std()}
	}
}
