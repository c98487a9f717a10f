package cli

import (
	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/server/cli/backup"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/plugin"
	"github.com/cleat-dev/cleat/server/cli/queue"
	"github.com/cleat-dev/cleat/server/cli/restore"
	"github.com/cleat-dev/cleat/server/cli/schedule"
)

// New returns the tree of commands. args are the arguments of the process, without its name.
func New(streams command.Streams, version string, args []string) *cobra.Command {
	app := &command.App{Streams: streams, Version: version, Args: args}
	return command.NewRoot(app,
		backup.NewCommand(app),
		restore.NewCommand(app),
		schedule.NewCommand(app),
		queue.NewCommand(app),
		plugin.NewCommand(app),
		newInstallCommand(app),
		newServerCommand(app),
		newRunPluginsCommand(app),
		newVersionCommand(app),
	)
}
