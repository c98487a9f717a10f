package restore

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/results"
	"github.com/cleat-dev/cleat/server/status"
)

func newDescribeRestoreCommand(a *command.App) *cobra.Command {
	var d runs.Downloads
	var details bool
	output := "plaintext"
	cmd := &cobra.Command{
		Use:   "describe NAME...",
		Short: "Describe restores: phase, errors and warnings, and with --details what became of each object",
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
				doc, err := loadRestore(cmd.Context(), s, &d, name, details)
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
	cmd.Flags().BoolVar(&details, "details", false, "list all objects of the restore as well")
	cmd.Flags().StringVarP(&output, "output", "o", output, "form of the output: plaintext or json")
	d.Add(cmd.Flags(), runs.DescribeTimeout)
	return cmd
}

// restoreDescription gathers it. That files cannot be downloaded is told, too; the rest is told all the same.
func loadRestore(ctx context.Context, s *command.Cluster, d *runs.Downloads, name string, details bool) (*status.RestoreDescription, error) {
	r := new(velerov1.Restore)
	if err := s.Get(ctx, s.Key(name), r); err != nil {
		return nil, err
	}
	r.APIVersion, r.Kind = velerov1.SchemeGroupVersion.String(), "Restore"
	doc := &status.RestoreDescription{Restore: r}
	if !status.LogStored(string(r.Status.Phase)) {
		return doc, nil
	}
	location := backupLocation(ctx, s, r.Spec.BackupName)
	if r.Status.Errors+r.Status.Warnings > 0 {
		found, err := runs.Fetch[results.Results](ctx, d, s, velerov1.DownloadTargetKindRestoreResults, name, location)
		if err != nil {
			doc.Problems = append(doc.Problems, err.Error())
		} else {
			doc.Results = &found
		}
	}
	if details {
		list, err := runs.Fetch[map[string][]string](ctx, d, s, velerov1.DownloadTargetKindRestoreResourceList, name, location)
		if err != nil {
			doc.Problems = append(doc.Problems, err.Error())
		}
		doc.Resources = list
	}
	return doc, nil
}
