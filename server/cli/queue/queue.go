package queue

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status"
)

// NewCommand returns the command "queue".
func NewCommand(a *command.App) *cobra.Command {
	var live bool
	var output string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "Show which backups run, which wait, and why",
		Long: "Show which backups run, which wait, and why, how many slots are in use, and whether the admission policy " +
			"works. With\n" +
			"-w, continue until ctrl-c: on a terminal the table is updated, elsewhere each change is a line, which is a JSON " +
			"object\n" +
			"with -o json.",
		Example: "  cleat queue\n  cleat queue -w\n  cleat queue -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cluster, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			if live {
				view, err := newQueueView(a.Out, a.Err, output)
				if err != nil {
					return err
				}
				return watchQueue(cmd.Context(), cluster, view, timeout)
			}
			server := askQueueServer(cmd.Context(), cluster, timeout)
			line, err := cluster.Queue(cmd.Context())
			if err != nil {
				return err
			}
			document := status.NewQueue(cluster.Namespace, line, server)
			return a.Print(output, []string{"table"}, document, func() error {
				if _, err := fmt.Fprintln(a.Out, server.Text(status.Taken(document.Items), time.Now())); err != nil {
					return err
				}
				if len(document.Items) == 0 {
					_, err := fmt.Fprintln(a.Out, "No backup is running or waiting.")
					return err
				}
				return status.QueueTable(document.Items, time.Now()).Print(a.Out)
			})
		},
	}
	command.AddOutput(cmd, &output, "table")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Second,
		"how long to wait for the server, without which less is shown")
	cmd.Flags().BoolVarP(&live, "watch", "w", false, "show each change as it happens")
	cmd.AddCommand(newExplainCommand(a), newSimulateCommand(a))
	return cmd
}
