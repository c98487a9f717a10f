package location

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status"
)

func newDescribeCommand(a *command.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "describe [NAME...]",
		Short: "Describe backup storage locations: their state, and what their buckets lock",
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			list, err := getter().List(cmd.Context(), cluster, "", args)
			if err != nil {
				return err
			}
			for i := range list.Items {
				if i > 0 {
					fmt.Fprintln(a.Out)
				}
				if err := status.PrintLocation(a.Out, &list.Items[i]); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.ValidArgsFunction = getter().Complete(a)
	return cmd
}
