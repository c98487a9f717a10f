package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/server/cli/backup"
	"github.com/cleat-dev/cleat/server/cli/bug"
	"github.com/cleat-dev/cleat/server/cli/clientconfig"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/console"
	"github.com/cleat-dev/cleat/server/cli/debug"
	"github.com/cleat-dev/cleat/server/cli/installation"
	"github.com/cleat-dev/cleat/server/cli/key"
	"github.com/cleat-dev/cleat/server/cli/location"
	"github.com/cleat-dev/cleat/server/cli/manifest"
	"github.com/cleat-dev/cleat/server/cli/operations"
	"github.com/cleat-dev/cleat/server/cli/overview"
	"github.com/cleat-dev/cleat/server/cli/plugin"
	"github.com/cleat-dev/cleat/server/cli/queue"
	"github.com/cleat-dev/cleat/server/cli/repo"
	"github.com/cleat-dev/cleat/server/cli/restore"
	"github.com/cleat-dev/cleat/server/cli/restorewait"
	"github.com/cleat-dev/cleat/server/cli/schedule"
	"github.com/cleat-dev/cleat/server/cli/takeover"
)

// New returns the tree of commands. args are the arguments of the process, without its name.
func New(streams command.Streams, version string, args []string) *cobra.Command {
	app := &command.App{Streams: streams, Version: version, Args: args}
	nouns := func() []*cobra.Command {
		return []*cobra.Command{
			backup.NewCommand(app), restore.NewCommand(app), schedule.NewCommand(app), location.NewCommand(app),
			location.NewSnapshotCommand(app),
			repo.NewCommand(app), plugin.NewCommand(app),
		}
	}
	return command.NewRoot(app, slices.Concat(nouns(), verbs(nouns), []*cobra.Command{
		overview.NewCommand(app),
		queue.NewCommand(app),
		operations.NewCommand(app),
		console.NewCommand(app),
		manifest.NewCommand(app),
		key.NewCommand(app),
		clientconfig.NewCommand(app),
		debug.NewCommand(app),
		bug.NewCommand(app),
		installation.NewInstall(app),
		installation.NewUninstall(app),
		takeover.NewCommand(app, serverProgram, agentProgram),
		newServerCommand(app),
		newNodeAgentCommand(app),
		newRunPluginsCommand(app),
		restorewait.NewCommand(app),
		newVersionCommand(app),
	})...)
}
