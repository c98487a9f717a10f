package plugin

import (
	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/server/cli/command"
)

// NewCommand returns the command "plugin".
func NewCommand(a *command.App) *cobra.Command {
	return command.NewParent("plugin", "Work with plugins",
		newGetCommand(a),
		newInfoCommand(a),
		newOrderCommand(a),
		newAddCommand(a),
		newRemoveCommand(a),
		newLockCommand(a),
		newVerifyCommand(a),
		newInitCommand(a),
		newTestCommand(a),
		newAskCommand(a),
	)
}
