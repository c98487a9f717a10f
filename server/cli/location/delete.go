package location

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
)

// newDeleteCommand returns the command "delete". The backups of a location leave the cluster with it and stay in the
// bucket, so that they come back with a new location.
func newDeleteCommand(a *command.App) *cobra.Command {
	return command.NewDeleteCommand(a, "Backup storage location", "backup storage locations", getter(),
		command.Deletion[velerov1.BackupStorageLocation]{
			Short: "Delete backup storage locations, and their backups from the cluster; the bucket stays as it is",
			After: func(ctx context.Context, cluster *command.Cluster, l *velerov1.BackupStorageLocation) error {
				var backups velerov1.BackupList
				if err := cluster.List(ctx, &backups, client.InNamespace(cluster.Namespace)); err != nil {
					return fmt.Errorf("list the backups of location %s: %w", l.Name, err)
				}
				var errs []error
				for i := range backups.Items {
					b := &backups.Items[i]
					if b.Spec.StorageLocation != l.Name {
						continue
					}
					if err := client.IgnoreNotFound(cluster.Delete(ctx, b)); err != nil {
						errs = append(errs, fmt.Errorf("delete backup %s from the cluster: %w", b.Name, err))
						continue
					}
					fmt.Fprintf(a.Out, "Backup %q of the location was removed from the cluster.\n", b.Name)
				}
				return errors.Join(errs...)
			},
		})
}
