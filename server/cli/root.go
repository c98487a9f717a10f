package cli

import (
	"errors"
	"io"

	"github.com/spf13/cobra"
)

// Streams are where the commands read from and write to.
type Streams struct {
	Out io.Writer // what was asked for
	Err io.Writer // what happens meanwhile
}

// App is what the commands share.
type App struct {
	Streams
	Version string
	Args    []string // of the process, without its name
	cluster clusterFlags
}

// errQuiet ends the process with a failure that has been told already.
var errQuiet = errors.New("")

// IsQuiet reports whether an error needs no further words.
func IsQuiet(err error) bool { return errors.Is(err, errQuiet) }

// New is the tree of commands. args are those of the process, without its name.
func New(streams Streams, version string, args []string) *cobra.Command {
	app := &App{Streams: streams, Version: version, Args: args}
	root := &cobra.Command{
		Use:           "cleat",
		Short:         "Back up and restore Kubernetes clusters",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	root.SetArgs(args)
	app.cluster.add(root.PersistentFlags())
	root.AddCommand(
		app.backupCommand(),
		app.restoreCommand(),
		app.scheduleCommand(),
		app.queueCommand(),
		app.pluginCommand(),
		app.installCommand(),
		app.serverCommand(),
		app.runPluginsCommand(),
		app.versionCommand(),
	)
	return root
}

// parent makes a command that only has others below it.
func parent(use, short string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(children...)
	return cmd
}
