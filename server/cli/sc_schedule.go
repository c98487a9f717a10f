package cli

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/status"
)

func newScheduleCommand(a *App) *cobra.Command {
	return parent("schedule", "Work with schedules, which make backups at the times of a cron expression",
		newCreateScheduleCommand(a), newGetScheduleCommand(a), newDescribeScheduleCommand(a), newDeleteScheduleCommand(a),
		newPauseScheduleCommand(a, "pause", true), newPauseScheduleCommand(a, "unpause", false))
}

// getSchedules is how commands get schedules.
func getSchedules() getter[velerov1.Schedule, *velerov1.ScheduleList] {
	return getter[velerov1.Schedule, *velerov1.ScheduleList]{
		newList: func() *velerov1.ScheduleList { return &velerov1.ScheduleList{} },
		items:   func(l *velerov1.ScheduleList) *[]velerov1.Schedule { return &l.Items },
		sort: func(schedules []velerov1.Schedule) {
			slices.SortFunc(schedules, func(a, b velerov1.Schedule) int { return cmp.Compare(a.Name, b.Name) })
		},
		table: status.ScheduleTable,
		meta:  func(s *velerov1.Schedule) client.Object { return s },
		retype: func(s *velerov1.Schedule) {
			s.TypeMeta = metav1.TypeMeta{APIVersion: velerov1.SchemeGroupVersion.String(), Kind: "Schedule"}
		},
	}
}

func newGetScheduleCommand(a *App) *cobra.Command {
	var f getFlags
	cmd := &cobra.Command{
		Use:     "get [NAME...]",
		Aliases: []string{"list"},
		Short:   "List schedules",
		RunE: func(cmd *cobra.Command, args []string) error {
			return getSchedules().run(cmd.Context(), a, f, args)
		},
	}
	f.add(cmd)
	return cmd
}

func newDescribeScheduleCommand(a *App) *cobra.Command {
	var selector string
	cmd := &cobra.Command{
		Use:   "describe [NAME...]",
		Short: "Describe schedules, all without a name",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.cluster.connect()
			if err != nil {
				return err
			}
			list, err := getSchedules().list(cmd.Context(), s, selector, args)
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
