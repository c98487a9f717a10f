package cli

import (
	"github.com/spf13/cobra"
)

func newPluginCommand(a *App) *cobra.Command {
	return parent("plugin", "Work with plugins",
		newGetCommand(a),
		newInfoCommand(a),
		newOrderCommand(a),
		newLockCommand(a),
		newVerifyCommand(a),
		newInitCommand(a),
		newTestCommand(a),
	)
}
