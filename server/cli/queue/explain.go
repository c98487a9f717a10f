package queue

import (
	"time"

	"github.com/spf13/cobra"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

func newExplainCommand(a *command.App) *cobra.Command {
	var output string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "explain BACKUP",
		Short: "Explain why a backup waits, for which others, and when it starts",
		Long: "Explain why a backup waits, for which others, and when it starts. The Backup names the nearest of those " +
			"that are in its\n" +
			"way; the server is asked for all of them.",
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
			var all *serverreport.Blockers
			if b.Status.Phase == velerov1.BackupPhaseQueued {
				all = AskBlockers(cmd.Context(), cluster, b.Name, timeout)
			}
			e := status.Explain(&b, line, all, time.Now())
			return a.Print(output, []string{"table"}, e, func() error { return e.Print(a.Out, time.Now()) })
		},
	}
	command.AddOutput(cmd, &output, "table")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Second,
		"how long to wait for the server, without which only the nearest blocker is shown")
	return cmd
}
