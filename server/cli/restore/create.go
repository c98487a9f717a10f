package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/internal/control/restores"
	"github.com/cleat-dev/cleat/server/internal/control/run"
)

// createFlags are the flags of "restore create".
type createFlags struct {
	NewFlags
	wait   bool
	dryRun runs.DryRun
	command.PrintFlag
}

func (c *createFlags) run(ctx context.Context, a *command.App, args []string) error {
	if (c.spec.BackupName == "") == (c.spec.ScheduleName == "") {
		return errors.New("say what to restore from: --from-backup or --from-schedule, one of them")
	}
	cluster, err := a.Cluster.Connect()
	if err != nil {
		return err
	}
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	restore, err := c.New(cluster.Namespace, name)
	if err != nil {
		return err
	}
	if err := c.checkSource(ctx, cluster, restore); err != nil {
		return err
	}
	if problems := restores.CheckSpec(&restore.Spec); len(problems) > 0 {
		return errors.New(strings.Join(problems, "; "))
	}
	if c.dryRun.On {
		return c.dryRun.Restore(ctx, a, cluster, restore, c.Form())
	}
	if printed, err := c.Print(a.Out, restore); printed {
		return err
	}
	if err := c.CheckObjects(ctx, cluster); err != nil {
		return err
	}
	return runs.Create(ctx, a, cluster, runs.Restore(restore), c.wait, "choose another name")
}

// checkSource returns an error if there is no backup to restore from. With --allow-partially-failed it chooses the
// newest backup of the schedule itself, since the server takes Completed ones only.
func (c *createFlags) checkSource(ctx context.Context, cluster *command.Cluster, restore *velerov1.Restore) error {
	if name := restore.Spec.BackupName; name != "" {
		var b velerov1.Backup
		if err := cluster.Get(ctx, cluster.Key(name), &b); err != nil {
			return fmt.Errorf("--from-backup: %w", err)
		}
		if phase := run.SettledPhase(&b); phase != "" && !phase.Restorable() {
			return fmt.Errorf("--from-backup: backup %s is %s, want Completed or PartiallyFailed", name, phase)
		}
		return nil
	}
	var list velerov1.BackupList
	schedule := restore.Spec.ScheduleName
	if err := cluster.List(ctx, &list, client.InNamespace(cluster.Namespace),
		client.MatchingLabels{velerov1.ScheduleNameLabel: velerov1.ValidLabelValue(schedule)}); err != nil {
		return err
	}
	usable := slices.DeleteFunc(list.Items, func(b velerov1.Backup) bool {
		return b.Status.Phase != velerov1.BackupPhaseCompleted &&
			(!c.allowPartial || b.Status.Phase != velerov1.BackupPhasePartiallyFailed)
	})
	if len(usable) == 0 {
		return fmt.Errorf("--from-schedule: schedule %s has no backup that can be restored", schedule)
	}
	if c.allowPartial {
		newest := slices.MaxFunc(usable, func(a, b velerov1.Backup) int {
			return startOf(&a).Compare(startOf(&b))
		})
		restore.Spec.BackupName, restore.Spec.ScheduleName = newest.Name, ""
	}
	return nil
}

func newCreateCommand(a *command.App) *cobra.Command {
	c := new(createFlags)
	cmd := &cobra.Command{
		Use:     "create [NAME] --from-backup BACKUP | --from-schedule SCHEDULE",
		Short:   "Create a restore",
		Example: "  cleat restore create --from-backup nightly --namespace-mappings shop:shop-copy --wait",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.run(cmd.Context(), a, args)
		},
	}
	f := cmd.Flags()
	c.AddTo(f)
	c.dryRun.Add(f, "restore")
	c.dryRun.AddDetails(f)
	runs.AddWait(f, &c.wait, "restore")
	c.Add(f, "restore")
	return cmd
}

// startOf returns the time when a backup was started, zero for one that was not.
func startOf(b *velerov1.Backup) time.Time {
	if b.Status.StartTimestamp == nil {
		return time.Time{}
	}
	return b.Status.StartTimestamp.Time
}
