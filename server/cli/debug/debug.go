package debug

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/runs"
)

// serverTimeout is how long to wait for an answer of the server, which may be what does not work.
const serverTimeout = 10 * time.Second

// NewCommand returns the command "debug".
func NewCommand(a *command.App) *cobra.Command {
	var output, backup, restore string
	var verbose bool
	var downloads runs.Downloads
	cmd := &cobra.Command{
		Use:   "debug",
		Short: "Collect the state and the logs of the server in a file, without secrets",
		Long: "Collect the state and the logs of the server in a file, without secrets: the custom resources, the " +
			"workloads of the server's\n" +
			"namespace without the values of their variables, their events and logs, and the logs of one backup or restore.\n" +
			"Signed URLs, and settings, arguments and parts of messages that look like secrets, are left out. Look at the " +
			"file before you pass it on:\n" +
			"hooks and logs of plugins have what their authors write.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path := cmp.Or(output, "bundle-"+time.Now().Format("2006-01-02-15-04-05")+".tar.gz")
			return write(a, path, func(b *bundle) error {
				if verbose {
					b.log = a.Err
				}
				return collect(cmd.Context(), a, b, func(ctx context.Context, c *collector) {
					if backup != "" {
						c.backup(ctx, &downloads, backup)
					}
					if restore != "" {
						c.restore(ctx, &downloads, restore)
					}
				})
			})
		},
	}
	downloads.Add(cmd.Flags(), serverTimeout)
	cmd.Flags().StringVar(&output, "output", "", "file to write; bundle-TIME.tar.gz without it")
	command.AddOnce(cmd.Flags(), &backup, "backup", "name of a backup of which to add the log",
		"write a bundle for each backup")
	command.AddOnce(cmd.Flags(), &restore, "restore", "name of a restore of which to add the log",
		"write a bundle for each restore")
	cmd.Flags().BoolVar(&verbose, "verbose", false, "name each file as it is added")
	return cmd
}

func write(a *command.App, path string, fill func(*bundle) error) error {
	b, err := newBundle(path)
	if err != nil {
		return err
	}
	defer b.abort()
	if err := fill(b); err != nil {
		return err
	}
	if err := b.close(); err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "Wrote %s\n", path)
	return nil
}
