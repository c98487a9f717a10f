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

func newDeleteCommand(a *command.App) *cobra.Command {
	var which command.Selection
	var confirm bool
	cmd := &cobra.Command{
		Use:   "delete [NAME...]",
		Short: "Delete schedules; their backups stay, unless the schedule owns them",
		RunE: func(cmd *cobra.Command, args []string) error {
			return eachSchedule(cmd.Context(), a, which, args, func(schedules []velerov1.Schedule) error {
				if confirm {
					return nil
				}
				return a.Confirm(fmt.Sprintf("Delete %s?", getter().Names(schedules)))
			}, func(cluster *command.Cluster, schedule *velerov1.Schedule) error {
				if err := cluster.Delete(cmd.Context(), schedule); err != nil {
					return fmt.Errorf("delete schedule %s: %w", schedule.Name, err)
				}
				fmt.Fprintf(a.Out, "Schedule deleted: %s\n", schedule.Name)
				return nil
			})
		},
	}
	which.Add(cmd.Flags(), "delete", "schedules")
	cmd.Flags().BoolVar(&confirm, "confirm", false, "do not ask")
	return cmd
}

// newPauseCommand returns the command "pause" or "unpause".
func newPauseCommand(a *command.App, verb string, paused bool) *cobra.Command {
	var which command.Selection
	var skip *bool
	cmd := &cobra.Command{
		Use:   verb + " [NAME...]",
		Short: map[bool]string{true: "Stop schedules from creating backups", false: "Let paused schedules create backups again"}[paused],
		RunE: func(cmd *cobra.Command, args []string) error {
			return eachSchedule(cmd.Context(), a, which, args, nil, func(cluster *command.Cluster, schedule *velerov1.Schedule) error {
				if schedule.Spec.Paused == paused {
					fmt.Fprintf(a.Out, "Schedule %s is already %sd, skip\n", schedule.Name, verb)
					return nil
				}
				before := schedule.DeepCopy()
				schedule.Spec.Paused, schedule.Spec.SkipImmediately = paused, skip
				if err := cluster.Patch(cmd.Context(), schedule, client.MergeFrom(before)); err != nil {
					return fmt.Errorf("%s schedule %s: %w", verb, schedule.Name, err)
				}
				fmt.Fprintf(a.Out, "Schedule %s %sd successfully\n", schedule.Name, verb)
				return nil
			})
		},
	}
	which.Add(cmd.Flags(), verb, "schedules")
	addSkipImmediately(cmd, &skip)
	return cmd
}

// eachSchedule calls do for each selected schedule. If ask is not nil, it is called first and can refuse with an error.
func eachSchedule(ctx context.Context, a *command.App, which command.Selection, names []string, ask func([]velerov1.Schedule) error,
	do func(*command.Cluster, *velerov1.Schedule) error,
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
	if ask != nil {
		if err := ask(schedules); err != nil {
			return err
		}
	}
	var errs []error
	for i := range schedules {
		errs = append(errs, do(cluster, &schedules[i]))
	}
	return errors.Join(errs...)
}
