// Package restorewait has the program of the init container in which a restored pod waits for the data of its volumes.
// In the image it is called /velero-restore-helper, as in Velero's.
//
// It imports package signal. It has no access to the cluster: its input is in the volumes.
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
	root := "/restores"
	cmd := &cobra.Command{
		Use: Name + " RESTORE-UID", Args: cobra.ExactArgs(1), Hidden: true,
		Short: "Wait until a restore has the data of the volumes restored that are mounted below /restores",
		RunE:  func(c *cobra.Command, args []string) error { return wait(c.Context(), a, root, args[0]) },
	}
	cmd.Flags().StringVar(&root, "volumes", root, "directory with a directory for each volume")
	return cmd
}

func wait(ctx context.Context, a *command.App, root, restore string) error {
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
	if err := signal.Wait(ctx, root, restore, tell); err != nil {
		return err
	}
	tell("the data of all volumes is restored")
	if err := signal.Clean(root); err != nil { // useless files must not keep the pod from running
		tell(fmt.Sprintf("could not remove all directories .velero from the volumes: %v", err))
	}
	return nil
}
