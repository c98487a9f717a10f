package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
)

func newHoldCommand(a *command.App) *cobra.Command {
	return newHoldingCommand(a, true, &cobra.Command{
		Use:   "hold NAME...",
		Short: "Put a legal hold on backups, so that nobody can delete them, and they do not expire",
		Long: "Put a legal hold on all files of backups. Nobody can delete them until it is released, whatever their " +
			"expiration is. The bucket must have S3 Object Lock. Volumes that a data mover has stored are not held.",
		Example: "  cleat backup hold nightly-20261127020000",
	})
}

func newReleaseCommand(a *command.App) *cobra.Command {
	return newHoldingCommand(a, false, &cobra.Command{
		Use:     "release NAME...",
		Short:   "End the legal hold on backups, which are then kept until their locks end, and expire",
		Example: "  cleat backup release nightly-20261127020000",
	})
}

// newHoldingCommand completes a command that holds or releases backups.
func newHoldingCommand(a *command.App, on bool, cmd *cobra.Command) *cobra.Command {
	var timeout time.Duration
	cmd.Args = cobra.MinimumNArgs(1)
	cmd.ValidArgsFunction = getter().Complete(a)
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long to wait for the server")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cluster, err := a.Cluster.Connect()
		if err != nil {
			return err
		}
		var errs []error
		for _, name := range args {
			if err := setHold(cmd.Context(), cluster, name, on, timeout); err != nil {
				errs = append(errs, err)
				continue
			}
			if on {
				fmt.Fprintf(a.Out, "Backup %q is held.\n", name)
			} else {
				fmt.Fprintf(a.Out, "Backup %q is released.\n", name)
			}
		}
		return errors.Join(errs...)
	}
	return cmd
}

// setHold asks the server to hold or release a backup, and waits until that is done.
func setHold(ctx context.Context, cluster *command.Cluster, name string, on bool, timeout time.Duration) error {
	var b velerov1.Backup
	if err := cluster.Get(ctx, cluster.Key(name), &b); err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:"%t",%q:null,%q:null}}}`, b.UID,
		velerov1.HoldAnnotation, on, velerov1.HeldAnnotation, velerov1.HoldFailureAnnotation)
	if err := cluster.Patch(ctx, &b, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("ask the server to hold or release backup %s: %w", name, err)
	}
	uid := b.UID
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, timeout, true,
		func(ctx context.Context) (bool, error) {
			if err := cluster.Get(ctx, cluster.Key(name), &b); err != nil {
				return false, err
			}
			if b.UID != uid {
				return false, fmt.Errorf("backup %s was replaced", name)
			}
			if why := b.Annotations[velerov1.HoldFailureAnnotation]; why != "" {
				return false, errors.New(why)
			}
			_, asked := b.Annotations[velerov1.HoldAnnotation]
			return on && b.Annotations[velerov1.HeldAnnotation] == "true" || !on && !asked, nil
		})
	verb := "released"
	if on {
		verb = "held"
	}
	switch {
	case wait.Interrupted(err) && ctx.Err() == nil:
		return fmt.Errorf("backup %s is not %s after %s; the server goes on: is it running, and has the backup ended?", name,
			verb, timeout)
	case err != nil:
		return fmt.Errorf("backup %s is not %s: %w", name, verb, err)
	}
	return nil
}
