package schedule

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
)

// newPauseCommand returns the command "pause" or "unpause".
func newPauseCommand(a *command.App, verb string, paused bool) *cobra.Command {
	var which command.Selection
	var skip *bool
	cmd := &cobra.Command{
		Use: verb + " [NAME...]",
		Short: map[bool]string{true: "Stop schedules from creating backups",
			false: "Let paused schedules create backups again"}[paused],
		RunE: func(cmd *cobra.Command, args []string) error {
			return eachSchedule(cmd.Context(), a, which, args,
				func(cluster *command.Cluster, schedule *velerov1.Schedule) error {
					if schedule.Spec.Paused == paused {
						fmt.Fprintf(a.Out, "Schedule %s is already %sd, skip\n", schedule.Name, verb)
						return nil
					}
					if err := Pause(cmd.Context(), cluster, schedule, paused, skip); err != nil {
						return err
					}
					fmt.Fprintf(a.Out, "Schedule %s %sd successfully\n", schedule.Name, verb)
					return nil
				})
		},
	}
	cmd.ValidArgsFunction = getter().Complete(a)
	which.Add(cmd.Flags(), verb, "schedules")
	addSkipImmediately(cmd, &skip)
	return cmd
}

// Pause stops a schedule from creating backups, or lets it create them again. skip is whether it then skips a backup
// that is due at once; nil for the setting of the server.
func Pause(
	ctx context.Context, cluster *command.Cluster, schedule *velerov1.Schedule, paused bool, skip *bool,
) error {
	before := schedule.DeepCopy()
	schedule.Spec.Paused, schedule.Spec.SkipImmediately = paused, skip
	if err := cluster.Patch(ctx, schedule, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("change schedule %s: %w", schedule.Name, err)
	}
	return nil
}

// eachSchedule calls do for each selected schedule.
func eachSchedule(
	ctx context.Context, a *command.App, which command.Selection, names []string, do func(*command.Cluster,
		*velerov1.Schedule) error,
) error {
	cluster, err := a.Cluster.Connect()
	if err != nil {
		return err
	}
	schedules, err := getter().Select(ctx, cluster, "schedules", which, names)
	if err != nil {
		return err
	}
	if len(schedules) == 0 {
		fmt.Fprintln(a.Out, "No schedules found.")
		return nil
	}
	var errs []error
	for i := range schedules {
		errs = append(errs, do(cluster, &schedules[i]))
	}
	return errors.Join(errs...)
}
