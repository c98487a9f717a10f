package runs

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/cleat-dev/cleat/server/cli/command"
)

// AddWait adds the flag --wait of a command that creates an object of the given kind.
func AddWait(flags *pflag.FlagSet, wait *bool, kind string) {
	flags.BoolVarP(wait, "wait", "w", false, "wait until the "+kind+" has ended; fails unless it is Completed")
}

// Create creates o and, if wait is set, shows its progress and returns an error unless it is completed in the end.
// instead is the hint for the user if an object of this name exists.
func Create(ctx context.Context, a *command.App, cluster *command.Cluster, o *Object, wait bool, instead string) error {
	kind, name := o.state().Kind, o.GetName()
	err := cluster.Create(ctx, o.Object)
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("a %s named %s exists; %s", kind, name, instead)
	}
	if err != nil {
		return fmt.Errorf("create the %s: %w", kind, err)
	}
	fmt.Fprintf(a.Out, "%s request %q submitted successfully.\n", o.state().Title(), name)
	if !wait {
		fmt.Fprintf(a.Out, "Run \"cleat %s describe %s\" or \"cleat %s logs %s\" for more details.\n", kind, name, kind, name)
		return nil
	}
	if err := await(ctx, cluster, o, command.NewProgress(a.Err, kind+" "+name)); err != nil {
		return fmt.Errorf("wait for the %s: %w", kind, err)
	}
	sentence, err := o.state().Conclusion()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.Out, sentence)
	return err
}
