package queue

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/status"
)

func NewCommand(a *command.App) *cobra.Command {
	var live bool
	var output string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "Show which backups run, which wait, and why",
		Long: "Show which backups run, which wait, and why; how many places there are, and whether the policy works that decides who\n" +
			"starts. With -w, go on until ctrl-c: on a terminal the table is drawn anew, anywhere else there is a line for each\n" +
			"change, which is a JSON object with -o json.",
		Example: "  cleat queue\n  cleat queue -w\n  cleat queue -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			if live {
				view, err := newQueueView(a.Out, a.Err, output)
				if err != nil {
					return err
				}
				return watchQueue(cmd.Context(), s, view, timeout)
			}
			server := askQueueServer(cmd.Context(), s, timeout)
			line, err := s.Queue(cmd.Context())
			if err != nil {
				return err
			}
			document := status.NewQueue(s.Namespace, line, server)
			return a.Print(output, []string{"table"}, document, func() error {
				if _, err := fmt.Fprintln(a.Out, server.Text(document.Running+document.Ready, time.Now())); err != nil {
					return err
				}
				if len(document.Items) == 0 {
					_, err := fmt.Fprintln(a.Out, "No backup runs or waits.")
					return err
				}
				return status.QueueTable(document.Items, time.Now()).Print(a.Out)
			})
		},
	}
	command.AddOutput(cmd, &output, "table")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Second, "how long to wait for what the server says; the queue is shown without it")
	cmd.Flags().BoolVarP(&live, "watch", "w", false, "show each change as it happens")
	cmd.AddCommand(newExplainCommand(a), newSimulateCommand(a))
	return cmd
}
