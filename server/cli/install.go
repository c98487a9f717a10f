package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/install"
)

func newInstallCommand(a *command.App) *cobra.Command {
	var definitionsOnly bool
	cmd := &cobra.Command{
		Use:   "install --crds-only",
		Short: "Install the custom resource definitions, or bring them up to date",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !definitionsOnly {
				return errors.New("only the custom resource definitions can be installed so far: cleat install --crds-only")
			}
			cluster, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			return install.Definitions(cmd.Context(), cluster, func(name, action string) {
				fmt.Fprintf(a.Out, "customresourcedefinition/%s %s\n", name, action)
			})
		},
	}
	cmd.Flags().BoolVar(&definitionsOnly, "crds-only", false, "install the custom resource definitions and nothing else")
	return cmd
}
