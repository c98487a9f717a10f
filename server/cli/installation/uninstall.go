package installation

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/internal/kube/repopassword"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/setup/install"
)

// NewUninstall returns the command "uninstall".
func NewUninstall(a *command.App) *cobra.Command {
	var force bool
	grace := time.Minute
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove the server from the cluster; buckets keep their files",
		Long: "Remove the server of a namespace, cleat's or Velero's, with its custom resources and its rights. The " +
			"namespace is deleted if\n" +
			"an installation has made it. The custom resource definitions are deleted unless another namespace has objects of " +
			"them.\n" +
			"What is in buckets stays. The command waits until everything is removed.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cluster, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			if !force {
				question, err := uninstallQuestion(cmd.Context(), cluster)
				if err != nil {
					return err
				}
				if err := a.Confirm(question); err != nil {
					return err
				}
			}
			uninstall := install.Uninstall{
				Client: cluster, Namespace: cluster.Namespace, Grace: grace,
				Removed: func(name, action string) { fmt.Fprintf(a.Out, "%s %s\n", name, action) },
			}
			return uninstall.Run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "do not ask")
	cmd.Flags().BoolVar(&force, "confirm", false, "do not ask")
	cmd.Flags().DurationVar(&grace, "grace-period", grace,
		"how long the server may take to finish with custom resources that have finalizers; then the finalizers are removed")
	cmd.Flags().Bool("wait", true, "the command always waits")
	cmd.Flags().Lookup("wait").Hidden = true
	return cmd
}

// uninstallQuestion returns the question, with the objects that will be lost.
func uninstallQuestion(ctx context.Context, cluster *command.Cluster) (string, error) {
	var backups velerov1.BackupList
	var restores velerov1.RestoreList
	for _, list := range []client.ObjectList{&backups, &restores} {
		if err := cluster.List(ctx, list, client.InNamespace(cluster.Namespace)); err != nil && !meta.IsNoMatchError(err) {
			return "", err
		}
	}
	running := 0
	for i := range backups.Items {
		if backups.Items[i].Status.Phase == velerov1.BackupPhaseInProgress {
			running++
		}
	}
	for i := range restores.Items {
		if restores.Items[i].Status.Phase == velerov1.RestorePhaseInProgress {
			running++
		}
	}
	return fmt.Sprintf("Remove the server in namespace %s with %s and %s from the cluster? %d of them run and would "+
		"end. The files in buckets stay; "+
		"without the Secret %s, which is removed, nobody can read the repositories of volumes among them: keep a copy of it.",
		cluster.Namespace, layout.Count(len(backups.Items), "backup"), layout.Count(len(restores.Items), "restore"), running,
		repopassword.SecretName), nil
}
