package restore

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/status"
	"github.com/cleat-dev/cleat/server/status/layout"
)

func newRestoreLogsCommand(a *command.App) *cobra.Command {
	var d runs.Downloads
	cmd := &cobra.Command{
		Use:   "logs NAME",
		Short: "Print the log of a restore",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			var r velerov1.Restore
			if err := s.Get(cmd.Context(), s.Key(args[0]), &r); err != nil {
				return err
			}
			if !status.LogStored(string(r.Status.Phase)) {
				return fmt.Errorf("the log of restore %s is stored when its run has ended; its phase is %s", r.Name, status.PhaseOrNew(string(r.Status.Phase)))
			}
			err = d.CopyFile(cmd.Context(), s, velerov1.DownloadTargetKindRestoreLog, r.Name, backupLocation(cmd.Context(), s, r.Spec.BackupName), a.Out)
			if errors.Is(err, runs.ErrNoFile) {
				return fmt.Errorf("there is no log of restore %s in the object storage; its phase is %s (%s)", r.Name, r.Status.Phase, layout.OrNone(r.Status.FailureReason))
			}
			return err
		},
	}
	d.Add(cmd.Flags(), time.Minute)
	return cmd
}
