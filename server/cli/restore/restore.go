package restore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/status"
	"github.com/cleat-dev/cleat/server/status/layout"
)

func NewCommand(a *command.App) *cobra.Command {
	return command.NewParent("restore", "Work with restores",
		newCreateRestoreCommand(a), newGetRestoreCommand(a), newDescribeRestoreCommand(a), newRestoreLogsCommand(a))
}

func newGetRestoreCommand(a *command.App) *cobra.Command {
	var f command.GetFlags
	get := command.Getter[velerov1.Restore, *velerov1.RestoreList]{
		NewList: func() *velerov1.RestoreList { return &velerov1.RestoreList{} },
		Items:   func(l *velerov1.RestoreList) *[]velerov1.Restore { return &l.Items },
		Sort: func(list []velerov1.Restore) {
			slices.SortFunc(list, func(a, b velerov1.Restore) int { return cmp.Compare(a.Name, b.Name) })
		},
		Table: func(list []velerov1.Restore, _ time.Time) layout.Table { return status.RestoreTable(list) },
		Meta:  func(r *velerov1.Restore) client.Object { return r },
		Retype: func(r *velerov1.Restore) {
			r.TypeMeta = metav1.TypeMeta{APIVersion: velerov1.SchemeGroupVersion.String(), Kind: "Restore"}
		},
	}
	cmd := &cobra.Command{
		Use:     "get [NAME...]",
		Aliases: []string{"list"},
		Short:   "List restores",
		RunE: func(cmd *cobra.Command, args []string) error {
			return get.Run(cmd.Context(), a, f, args)
		},
	}
	f.Add(cmd)
	return cmd
}

// locationOfBackup is the name of a backup's location, or nothing when that cannot be told.
func backupLocation(ctx context.Context, s *command.Cluster, name string) string {
	var b velerov1.Backup
	if err := s.Get(ctx, s.Key(name), &b); err != nil {
		return ""
	}
	return b.Spec.StorageLocation
}
