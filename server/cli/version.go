package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

func newVersionCommand(a *command.App) *cobra.Command {
	var clientOnly bool
	timeout := 5 * time.Second
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this command and of the server",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintf(a.Out, "Client: %s\n", a.Version)
			if clientOnly {
				return nil
			}
			cluster, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			answer, err := cluster.ServerStatus(cmd.Context(), timeout, nil)
			if err != nil {
				return fmt.Errorf("ask the server for its version: %w", err)
			}
			fmt.Fprintf(a.Out, "Server: %s\n", layout.OneLine(serverreport.ServerVersion(answer)))
			return nil
		},
	}
	cmd.Flags().BoolVar(&clientOnly, "client-only", false, "do not ask the server")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long to wait for the server")
	return cmd
}
