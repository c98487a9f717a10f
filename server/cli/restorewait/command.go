// Package restorewait has the program of the init container in which a restored pod waits for the data of its volumes.
// In the image it is called /velero-restore-helper, as in Velero's.
//
// It imports package signal. It has no access to the cluster: its input is in directories that agents mark. It leaves
// the marks where they are, so that a pod that starts again, as after a restart of its node, does not wait again.
package restorewait

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/internal/node/signal"
)

const (
	// Link is the name under which the program is this command.
	Link = "velero-restore-helper"
	// Name is the name of the command.
	Name = "restore-wait"

	// limitVariable has the time after which the command gives up.
	limitVariable = "CLEAT_RESTORE_TIMEOUT"
	defaultLimit  = 5 * time.Hour
)

// NewCommand returns the command.
func NewCommand(a *command.App) *cobra.Command {
	root, volumes := "/restores", "/restored"
	cmd := &cobra.Command{
		Use: Name + " RESTORE-UID", Args: cobra.ExactArgs(1), Hidden: true,
		Short: "Wait until a restore has restored the data of the volumes of a pod",
		RunE:  func(c *cobra.Command, args []string) error { return wait(c.Context(), a, root, volumes, args[0]) },
	}
	cmd.Flags().StringVar(&root, "signals", root, "directory with a directory for each volume that an agent marks")
	cmd.Flags().StringVar(&volumes, "volumes", volumes,
		"directory with a directory for each volume that an agent of Velero marks")
	return cmd
}

func wait(ctx context.Context, a *command.App, root, volumes, restore string) error {
	limit := defaultLimit
	if text := os.Getenv(limitVariable); text != "" {
		var err error
		if limit, err = time.ParseDuration(text); err != nil || limit <= 0 {
			return fmt.Errorf("%s is %q, want a duration such as 4h", limitVariable, text)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit,
		fmt.Errorf("the data was not restored within %s; see cleat restore describe and the node agents' logs", limit))
	defer cancel()
	tell := func(text string) { _, _ = fmt.Fprintln(a.Out, text) }
	if err := signal.Wait(ctx, root, volumes, restore, tell); err != nil {
		return err
	}
	tell("the data of all volumes is restored")
	return nil
}
