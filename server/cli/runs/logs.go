package runs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/cli/status/layout"
)

// logsTimeout is how long "logs" waits for the server to make a URL.
const logsTimeout = time.Minute

// NewLogsCommand returns the command that prints the log of a run. get returns the state of the run with the given
// name, and the name of the location of its files.
func NewLogsCommand(
	a *command.App, kind string, target velerov1.DownloadTargetKind,
	get func(ctx context.Context, cluster *command.Cluster, name string) (status.Run, string, error),
) *cobra.Command {
	var d Downloads
	cmd := &cobra.Command{
		Use:   "logs NAME",
		Short: "Print the log of a " + kind,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			run, location, err := get(cmd.Context(), cluster, args[0])
			if err != nil {
				return err
			}
			if !run.HasLog() {
				return fmt.Errorf("the log of %s %s is stored when its run has ended; its phase is %s", kind, run.Name, run.Phase)
			}
			err = d.copyFile(cmd.Context(), cluster, target, run.Name, location, a.Out)
			if errors.Is(err, ErrNoFile) {
				return fmt.Errorf("there is no log of %s %s in the object storage; its phase is %s (%s)", kind, run.Name, run.Phase,
					layout.OrNone(run.FailureReason))
			}
			return err
		},
	}
	d.Add(cmd.Flags(), logsTimeout)
	return cmd
}
