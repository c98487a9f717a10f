package schedule

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/status"
)

func NewCommand(a *command.App) *cobra.Command {
	return command.NewParent("schedule", "Work with schedules, which make backups at the times of a cron expression",
		newCreateScheduleCommand(a), newGetScheduleCommand(a), newDescribeScheduleCommand(a), newDeleteScheduleCommand(a),
		newPauseScheduleCommand(a, "pause", true), newPauseScheduleCommand(a, "unpause", false))
}

// getSchedules is how commands get schedules.
func getSchedules() command.Getter[velerov1.Schedule, *velerov1.ScheduleList] {
	return command.Getter[velerov1.Schedule, *velerov1.ScheduleList]{
		NewList: func() *velerov1.ScheduleList { return &velerov1.ScheduleList{} },
		Items:   func(l *velerov1.ScheduleList) *[]velerov1.Schedule { return &l.Items },
		Sort: func(schedules []velerov1.Schedule) {
			slices.SortFunc(schedules, func(a, b velerov1.Schedule) int { return cmp.Compare(a.Name, b.Name) })
		},
		Table: status.ScheduleTable,
		Meta:  func(s *velerov1.Schedule) client.Object { return s },
		Retype: func(s *velerov1.Schedule) {
			s.TypeMeta = metav1.TypeMeta{APIVersion: velerov1.SchemeGroupVersion.String(), Kind: "Schedule"}
		},
	}
}

func newGetScheduleCommand(a *command.App) *cobra.Command {
	var f command.GetFlags
	cmd := &cobra.Command{
		Use:     "get [NAME...]",
		Aliases: []string{"list"},
		Short:   "List schedules",
		RunE: func(cmd *cobra.Command, args []string) error {
			return getSchedules().Run(cmd.Context(), a, f, args)
		},
	}
	f.Add(cmd)
	return cmd
}

func newDescribeScheduleCommand(a *command.App) *cobra.Command {
	var selector string
	cmd := &cobra.Command{
		Use:   "describe [NAME...]",
		Short: "Describe schedules, all without a name",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			list, err := getSchedules().List(cmd.Context(), s, selector, args)
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
	cmd.Flags().StringVarP(&selector, "selector", "l", "", "only those whose labels match")
	return cmd
}
