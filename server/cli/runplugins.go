package cli

import (
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/server/cli/command"
)

// newRunPluginsCommand returns the command that serves the built-in plugins as a plugin process. The server starts it.
func newRunPluginsCommand(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use:                "run-plugins",
		Short:              "Serve the built-in plugins as a plugin process",
		Hidden:             true,
		DisableFlagParsing: true, // the server passes its own flags
		RunE: func(_ *cobra.Command, args []string) error {
			if err := a.Cluster.Parse(args); err != nil {
				return err
			}
			signal.Reset(syscall.SIGTERM) // main ends the context on it, which Serve does not get
			framework.Serve(a.BuiltIns()...)
			return nil
		},
	}
}
