package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/server/cli/backup"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/restore"
	"github.com/cleat-dev/cleat/server/cli/schedule"
)

// New is the tree of commands. args are those of the process, without its name.
func New(streams command.Streams, version string, args []string) *cobra.Command {
	app := &command.App{Streams: streams, Version: version, Args: args}
	root := &cobra.Command{
		Use:           "cleat",
		Short:         "Back up and restore Kubernetes clusters",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	root.SetArgs(args)
	app.Cluster.Add(root.PersistentFlags())
	root.AddCommand(
		backup.NewCommand(app),
		restore.NewCommand(app),
		schedule.NewCommand(app),
		newQueueCommand(app),
		newPluginCommand(app),
		newInstallCommand(app),
		newServerCommand(app),
		newRunPluginsCommand(app),
		newVersionCommand(app),
	)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; \"%s --help\" lists the flags", err, cmd.CommandPath())
	})
	explainArgs(root)
	return root
}

// explainArgs adds to what is wrong with the arguments of cmd, or of one below it, what would be right.
func explainArgs(cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		explainArgs(child)
	}
	check := cmd.Args
	if check == nil {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if err == nil {
			return nil
		}
		if !cmd.HasSubCommands() {
			return fmt.Errorf("%w; usage: %s", err, cmd.UseLine())
		}
		var names []string
		for _, child := range cmd.Commands() {
			names = append(names, child.Name())
		}
		return fmt.Errorf("%w; there are %s", err, strings.Join(names, ", "))
	}
}
