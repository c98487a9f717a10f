package queue

import (
	"time"

	"github.com/spf13/cobra"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/status"
)

func newExplainCommand(a *command.App) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "explain BACKUP",
		Short:   "Explain why a backup waits, for which others, and when it starts",
		Example: "  cleat queue explain nightly",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			line, err := cluster.Queue(cmd.Context())
			if err != nil {
				return err
			}
			var b velerov1.Backup
			if err := cluster.Get(cmd.Context(), cluster.Key(args[0]), &b); err != nil {
				return err
			}
			e := status.Explain(&b, line, time.Now())
			return a.Print(output, []string{"table"}, e, func() error { return e.Print(a.Out, time.Now()) })
		},
	}
	command.AddOutput(cmd, &output, "table")
	return cmd
}
