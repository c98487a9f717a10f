package cli

import "github.com/spf13/cobra"

func (a *App) pluginCommand() *cobra.Command {
	return parent("plugin", "Work with plugins",
		a.pluginInitCommand(),
		a.pluginTestCommand(),
	)
}
