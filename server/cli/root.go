package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

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

// parent makes a command that only has others below it.
func parent(use, short string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(children...)
	return cmd
}
