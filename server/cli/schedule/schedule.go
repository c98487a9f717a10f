package schedule

import (
	"fmt"

	"github.com/spf13/cobra"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status"
)

// NewCommand returns the command "schedule".
func NewCommand(a *command.App) *cobra.Command {
	return command.NewParent("schedule", "Work with schedules, which create backups at the times of a cron expression",
		newCreateCommand(a), command.NewGetCommand(a, "schedules", getter()), newDescribeCommand(a),
		command.NewDeleteCommand(a, "Schedule", "schedules", getter(), command.Deletion[velerov1.Schedule]{
			Short: "Delete schedules; their backups stay, unless the schedule owns them",
		}),
		newPauseCommand(a, "pause", true), newPauseCommand(a, "unpause", false))
}

func getter() command.Getter[velerov1.Schedule, *velerov1.Schedule, *velerov1.ScheduleList] {
	return command.Getter[velerov1.Schedule, *velerov1.Schedule, *velerov1.ScheduleList]{
		Kind:    "Schedule",
		NewList: func() *velerov1.ScheduleList { return &velerov1.ScheduleList{} },
		Items:   func(l *velerov1.ScheduleList) *[]velerov1.Schedule { return &l.Items },
		Table:   status.ScheduleTable,
	}
}

func newDescribeCommand(a *command.App) *cobra.Command {
	var selector string
	cmd := &cobra.Command{
		Use:   "describe [NAME...]",
		Short: "Describe schedules, all without a name",
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			list, err := getter().List(cmd.Context(), cluster, selector, args)
			if err != nil {
				return err
			}
			for i := range list.Items {
				if i > 0 {
					fmt.Fprintln(a.Out)
				}
				if err := status.DescribeSchedule(a.Out, &list.Items[i]); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.ValidArgsFunction = getter().Complete(a)
	command.AddSelector(cmd.Flags(), &selector, "only those whose labels match")
	return cmd
}
