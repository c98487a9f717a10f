package location

import (
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
)

func newSetCommand(a *command.App) *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Change a backup storage location; what no flag gives stays as it is",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			var l velerov1.BackupStorageLocation
			if err := cluster.Get(cmd.Context(), cluster.Key(args[0]), &l); err != nil {
				return err
			}
			before := l.DeepCopy()
			if err := s.apply(cmd.Flags(), &l.Spec); err != nil {
				return err
			}
			if l.Spec.Default {
				if err := resetDefaults(cmd.Context(), cluster, l.Name); err != nil {
					return err
				}
			}
			if err := cluster.Patch(cmd.Context(), &l, client.MergeFrom(before)); err != nil {
				return fmt.Errorf("change location %s: %w", l.Name, err)
			}
			fmt.Fprintf(a.Out, "Backup storage location %q configured successfully.\n", l.Name)
			return nil
		},
	}
	s.add(cmd.Flags())
	return cmd
}

func newSnapshotSetCommand(a *command.App) *cobra.Command {
	var p provider
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Change a volume snapshot location; what no flag gives stays as it is",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			var l velerov1.VolumeSnapshotLocation
			if err := cluster.Get(cmd.Context(), cluster.Key(args[0]), &l); err != nil {
				return err
			}
			before := l.DeepCopy()
			p.apply(cmd.Flags(), &l.Spec.Config, &l.Spec.Credential)
			if err := cluster.Patch(cmd.Context(), &l, client.MergeFrom(before)); err != nil {
				return fmt.Errorf("change location %s: %w", l.Name, err)
			}
			fmt.Fprintf(a.Out, "Volume snapshot location %q configured successfully.\n", l.Name)
			return nil
		},
	}
	p.add(cmd.Flags())
	return cmd
}
