package runs

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
)

// NewCancelCommand returns the command that cancels the backups or restores that newObject makes.
func NewCancelCommand(a *command.App, kind string, newObject func() *Object) *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use:   "cancel NAME...",
		Short: "End " + kind + "s early, with the operations that they have started",
		Long: "End " + kind + "s early. One that waits for its turn does not start, and one that runs stops: both become " +
			"Failed. One that\n" +
			"waits for asynchronous operations of plugins goes on without them, and becomes PartiallyFailed. Its open " +
			"operations are\n" +
			"cancelled, and their ends are awaited for a limited time. A cancellation cannot be taken back.\n\n" +
			"The request is the annotation " + velerov1.CancelAnnotation +
			": \"true\", which Velero's own server does not know.",
		Example: "  cleat " + kind + " cancel nightly --wait",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			var errs []error
			var requested []*Object
			for _, name := range args {
				o := newObject()
				if err := cancel(cmd.Context(), a, cluster, o, name); err != nil {
					errs = append(errs, err)
					continue
				}
				requested = append(requested, o)
			}
			for _, o := range requested {
				if wait {
					errs = append(errs, awaitCancelled(cmd.Context(), a, cluster, o))
				}
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().BoolVarP(&wait, "wait", "w", false, "wait until the "+kind+"s have ended")
	return cmd
}

// cancel requests the end of the named object, which it reads into o, and prints the consequences.
func cancel(ctx context.Context, a *command.App, cluster *command.Cluster, o *Object, name string) error {
	if err := cluster.Get(ctx, cluster.Key(name), o.Object); err != nil {
		return err
	}
	already := ""
	if velerov1.CancelRequested(o) {
		already = " already"
	}
	follows, err := Cancel(ctx, cluster, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "%s %q is being cancelled%s: %s.\n", o.state().Title(), name, already, follows)
	return nil
}

// Cancel requests the end of o, unless it is requested already, and returns what follows.
func Cancel(ctx context.Context, cluster *command.Cluster, o *Object) (follows string, err error) {
	follows, err = o.state().Cancellation()
	if err != nil || velerov1.CancelRequested(o) {
		return follows, err
	}
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:"true"}}}`, o.GetUID(), velerov1.CancelAnnotation)
	if err := cluster.Patch(ctx, o.Object, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return "", fmt.Errorf("request the cancellation of %s %s: %w", o.state().Kind, o.GetName(), err)
	}
	return follows, nil
}

// awaitCancelled waits until o has ended. It returns an error if o has ended as if it had not been cancelled.
func awaitCancelled(ctx context.Context, a *command.App, cluster *command.Cluster, o *Object) error {
	kind, name := o.state().Kind, o.GetName()
	if err := await(ctx, cluster, o, command.NewProgress(a.Err, kind+" "+name)); err != nil {
		return fmt.Errorf("wait for the end of the %s: %w", kind, err)
	}
	now := o.state()
	if now.Phase == string(velerov1.BackupPhaseCompleted) && !velerov1.IsRehearsal(o) {
		return fmt.Errorf("%s %s was Completed before it could be cancelled", kind, name)
	}
	_, err := fmt.Fprintf(a.Out, "%s %q has ended: %s.\n", now.Title(), name, now.Phase)
	return err
}
