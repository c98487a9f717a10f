package cli

import (
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/status"
)

func newBackupCommand(a *App) *cobra.Command {
	return parent("backup", "Work with backups",
		newCreateBackupCommand(a), newGetBackupCommand(a), newDescribeBackupCommand(a), newBackupLogsCommand(a), newDeleteBackupCommand(a))
}

// getBackups is how commands get backups.
func getBackups() getter[velerov1.Backup, *velerov1.BackupList] {
	return getter[velerov1.Backup, *velerov1.BackupList]{
		newList: func() *velerov1.BackupList { return &velerov1.BackupList{} },
		items:   func(l *velerov1.BackupList) *[]velerov1.Backup { return &l.Items },
		sort:    status.SortBackups,
		table:   status.BackupTable,
		meta:    func(b *velerov1.Backup) client.Object { return b },
		retype: func(b *velerov1.Backup) {
			b.TypeMeta = metav1.TypeMeta{APIVersion: velerov1.SchemeGroupVersion.String(), Kind: "Backup"}
		},
	}
}

func newGetBackupCommand(a *App) *cobra.Command {
	var f getFlags
	cmd := &cobra.Command{
		Use:     "get [NAME...]",
		Aliases: []string{"list"},
		Short:   "List backups",
		RunE: func(cmd *cobra.Command, args []string) error {
			return getBackups().run(cmd.Context(), a, f, args)
		},
	}
	f.add(cmd)
	return cmd
}
