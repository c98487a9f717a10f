package cli

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/status"
	"github.com/cleat-dev/cleat/server/status/layout"
)

func newRestoreCommand(a *App) *cobra.Command {
	return parent("restore", "Work with restores",
		newCreateRestoreCommand(a), newGetRestoreCommand(a), newDescribeRestoreCommand(a), newRestoreLogsCommand(a))
}

func newGetRestoreCommand(a *App) *cobra.Command {
	var f getFlags
	get := getter[velerov1.Restore, *velerov1.RestoreList]{
		newList: func() *velerov1.RestoreList { return &velerov1.RestoreList{} },
		items:   func(l *velerov1.RestoreList) *[]velerov1.Restore { return &l.Items },
		sort: func(list []velerov1.Restore) {
			slices.SortFunc(list, func(a, b velerov1.Restore) int { return cmp.Compare(a.Name, b.Name) })
		},
		table: func(list []velerov1.Restore, _ time.Time) layout.Table { return status.RestoreTable(list) },
		meta:  func(r *velerov1.Restore) client.Object { return r },
		retype: func(r *velerov1.Restore) {
			r.TypeMeta = metav1.TypeMeta{APIVersion: velerov1.SchemeGroupVersion.String(), Kind: "Restore"}
		},
	}
	cmd := &cobra.Command{
		Use:     "get [NAME...]",
		Aliases: []string{"list"},
		Short:   "List restores",
		RunE: func(cmd *cobra.Command, args []string) error {
			return get.run(cmd.Context(), a, f, args)
		},
	}
	f.add(cmd)
	return cmd
}

// locationOfBackup is the name of a backup's location, or nothing when that cannot be told.
func backupLocation(ctx context.Context, s *session, name string) string {
	var b velerov1.Backup
	if err := s.Get(ctx, s.key(name), &b); err != nil {
		return ""
	}
	return b.Spec.StorageLocation
}
