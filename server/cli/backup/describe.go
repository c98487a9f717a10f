package backup

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/results"
	"github.com/cleat-dev/cleat/server/status"
	"github.com/cleat-dev/cleat/server/status/layout"
)

func newDescribeBackupCommand(a *command.App) *cobra.Command {
	var d runs.Downloads
	var details bool
	output := "plaintext"
	cmd := &cobra.Command{
		Use:   "describe NAME...",
		Short: "Describe backups: phase, errors and warnings, and with --details what is in them",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			for i, name := range args {
				if i > 0 {
					fmt.Fprintln(a.Out)
				}
				doc, err := loadBackup(cmd.Context(), s, &d, name, details)
				if err != nil {
					return err
				}
				if err := command.PrintDescription(a.Out, output, doc, doc.Print); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&details, "details", false, "list all objects of the backup as well")
	cmd.Flags().StringVarP(&output, "output", "o", output, "form of the output: plaintext or json")
	d.Add(cmd.Flags(), runs.DescribeTimeout)
	return cmd
}

// backupDescription gathers it. That files cannot be downloaded is told, too; the rest is told all the same.
func loadBackup(ctx context.Context, s *command.Cluster, d *runs.Downloads, name string, details bool) (*status.BackupDescription, error) {
	b := new(velerov1.Backup)
	if err := s.Get(ctx, s.Key(name), b); err != nil {
		return nil, err
	}
	b.APIVersion, b.Kind = velerov1.SchemeGroupVersion.String(), "Backup"
	doc := status.NewBackupDescription(b)
	if doc.QueueWait != nil {
		if line, err := s.Queue(ctx); err != nil {
			doc.Problems = append(doc.Problems, err.Error())
		} else {
			doc.Starts = status.Explain(b, line, time.Now()).Starts
		}
	}
	if stored := status.LogStored(string(b.Status.Phase)); stored && b.Status.Errors+b.Status.Warnings > 0 {
		r, err := runs.Fetch[results.Results](ctx, d, s, velerov1.DownloadTargetKindBackupResults, name, b.Spec.StorageLocation)
		if err != nil {
			doc.Problems = append(doc.Problems, err.Error())
		} else {
			doc.Results = &r
		}
	}
	if stored := status.LogStored(string(b.Status.Phase)); stored && details {
		list, err := runs.Fetch[map[string][]string](ctx, d, s, velerov1.DownloadTargetKindBackupResourceList, name, b.Spec.StorageLocation)
		if err != nil {
			doc.Problems = append(doc.Problems, err.Error())
		}
		doc.Resources = list
	}
	var requests velerov1.DeleteBackupRequestList
	err := s.List(ctx, &requests, client.InNamespace(s.Namespace), client.MatchingLabels{velerov1.BackupNameLabel: velerov1.ValidLabelValue(name)})
	if err != nil {
		doc.Problems = append(doc.Problems, err.Error())
	}
	for i := range requests.Items {
		r := &requests.Items[i]
		doc.Deletions = append(doc.Deletions, status.DeletionAttempt{
			Time: layout.FormatTime(&r.CreationTimestamp), Phase: status.PhaseOrNew(string(r.Status.Phase)), Errors: r.Status.Errors,
		})
	}
	return doc, nil
}
