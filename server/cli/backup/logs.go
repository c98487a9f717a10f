package backup

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

func newBackupLogsCommand(a *command.App) *cobra.Command {
	var d runs.Downloads
	cmd := &cobra.Command{
		Use:   "logs NAME",
		Short: "Print the log of a backup",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			var b velerov1.Backup
			if err := s.Get(cmd.Context(), s.Key(args[0]), &b); err != nil {
				return err
			}
			if !status.LogStored(string(b.Status.Phase)) {
				return fmt.Errorf("the log of backup %s is stored when its run has ended; its phase is %s", b.Name, status.PhaseOrNew(string(b.Status.Phase)))
			}
			err = d.CopyFile(cmd.Context(), s, velerov1.DownloadTargetKindBackupLog, b.Name, b.Spec.StorageLocation, a.Out)
			if errors.Is(err, runs.ErrNoFile) {
				return fmt.Errorf("there is no log of backup %s in the object storage; its phase is %s (%s)", b.Name, b.Status.Phase, layout.OrNone(b.Status.FailureReason))
			}
			return err
		},
	}
	d.Add(cmd.Flags(), time.Minute)
	return cmd
}
