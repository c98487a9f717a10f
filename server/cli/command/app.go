package command

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/framework"
	"github.com/cleat-dev/cleat/plugins"
	"github.com/cleat-dev/cleat/plugins/itemactions"
)

// App is what the commands share.
type App struct {
	Streams
	Version string
	Args    []string // of the process, without its name
	Cluster ClusterFlags
}

// Streams are where the commands read from and write to.
type Streams struct {
	Out io.Writer // what was asked for
	Err io.Writer // what happens meanwhile
}

// errQuiet ends the process with a failure that has been told already.
var ErrQuiet = errors.New("")

// IsQuiet reports whether an error needs no further words.
func IsQuiet(err error) bool { return errors.Is(err, ErrQuiet) }

// parent makes a command that only has others below it.
func Parent(use, short string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(children...)
	return cmd
}

// builtIns are the built-in plugins, which ask the cluster that the flags name.
func (a *App) BuiltIns() []framework.Registration {
	return plugins.All(itemactions.WithConfig(a.Cluster.RestConfig))
}
