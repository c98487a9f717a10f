package backup

import (
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/status"
)

func NewCommand(a *command.App) *cobra.Command {
	return command.NewParent("backup", "Work with backups",
		newCreateBackupCommand(a), newGetBackupCommand(a), newDescribeBackupCommand(a), newBackupLogsCommand(a), newDeleteBackupCommand(a))
}

// getBackups is how commands get backups.
func getBackups() command.Getter[velerov1.Backup, *velerov1.BackupList] {
	return command.Getter[velerov1.Backup, *velerov1.BackupList]{
		NewList: func() *velerov1.BackupList { return &velerov1.BackupList{} },
		Items:   func(l *velerov1.BackupList) *[]velerov1.Backup { return &l.Items },
		Sort:    status.SortBackups,
		Table:   status.BackupTable,
		Meta:    func(b *velerov1.Backup) client.Object { return b },
		Retype: func(b *velerov1.Backup) {
			b.TypeMeta = metav1.TypeMeta{APIVersion: velerov1.SchemeGroupVersion.String(), Kind: "Backup"}
		},
	}
}

func newGetBackupCommand(a *command.App) *cobra.Command {
	var f command.GetFlags
	cmd := &cobra.Command{
		Use:     "get [NAME...]",
		Aliases: []string{"list"},
		Short:   "List backups",
		RunE: func(cmd *cobra.Command, args []string) error {
			return getBackups().Run(cmd.Context(), a, f, args)
		},
	}
	f.Add(cmd)
	return cmd
}
