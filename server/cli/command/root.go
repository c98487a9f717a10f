package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// NewRoot returns the command "cleat" with children below it. It runs with the arguments of app.
func NewRoot(app *App, children ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:           "cleat",
		Short:         "Back up and restore Kubernetes clusters",
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRun: func(cmd *cobra.Command, _ []string) {
			noteClientFlags(app, cmd)
		},
	}
	root.SetOut(app.Out)
	root.SetErr(app.Err)
	root.SetArgs(app.Args)
	app.Cluster.Add(root.PersistentFlags())
	addClientFlags(root.PersistentFlags())
	root.AddCommand(children...)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; \"%s --help\" lists the flags", err, cmd.CommandPath())
	})
	explainArgs(root)
	return root
}

// NewParent returns a command that only groups its children.
func NewParent(use, short string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(children...)
	return cmd
}

// explainArgs adds the usage to errors about the arguments of cmd, and of the commands below it.
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
			if child.Hidden {
				continue
			}
			names = append(names, child.Name())
		}
		return fmt.Errorf("%w; there are %s", err, strings.Join(names, ", "))
	}
}
