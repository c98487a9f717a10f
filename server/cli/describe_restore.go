package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/results"
)

func (a *App) restoreDescribeCommand() *cobra.Command {
	var d downloads
	var details bool
	output := "plaintext"
	cmd := &cobra.Command{
		Use:   "describe NAME...",
		Short: "Describe restores: phase, errors and warnings, and with --details what became of each object",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.cluster.connect()
			if err != nil {
				return err
			}
			for i, name := range args {
				if i > 0 {
					fmt.Fprintln(a.Out)
				}
				story, err := s.restoreStory(cmd.Context(), &d, name, details)
				if err != nil {
					return err
				}
				if err := describe(a.Out, output, story, story.print); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&details, "details", false, "list all objects of the restore as well")
	cmd.Flags().StringVarP(&output, "output", "o", output, "form of the output: plaintext or json")
	d.add(cmd.Flags(), describeTimeout)
	return cmd
}

// restoreStory is what there is to tell of a restore.
type restoreStory struct {
	Restore   *velerov1.Restore   `json:"restore"`
	Results   *results.Results    `json:"results,omitempty"`
	Resources map[string][]string `json:"resourceList,omitempty"`
	Problems  []string            `json:"problems,omitempty"` // what could not be found out
}

// restoreStory gathers it. That files cannot be downloaded is told, too; the rest is told all the same.
func (s *session) restoreStory(ctx context.Context, d *downloads, name string, details bool) (*restoreStory, error) {
	r := new(velerov1.Restore)
	if err := s.Get(ctx, s.key(name), r); err != nil {
		return nil, err
	}
	r.APIVersion, r.Kind = velerov1.SchemeGroupVersion.String(), "Restore"
	story := &restoreStory{Restore: r}
	if !logStored(string(r.Status.Phase)) {
		return story, nil
	}
	location := s.locationOfBackup(ctx, r.Spec.BackupName)
	if r.Status.Errors+r.Status.Warnings > 0 {
		found, err := fetch[results.Results](ctx, d, s, velerov1.DownloadTargetKindRestoreResults, name, location)
		if err != nil {
			story.Problems = append(story.Problems, err.Error())
		} else {
			story.Results = &found
		}
	}
	if details {
		list, err := fetch[map[string][]string](ctx, d, s, velerov1.DownloadTargetKindRestoreResourceList, name, location)
		if err != nil {
			story.Problems = append(story.Problems, err.Error())
		}
		story.Resources = list
	}
	return story, nil
}

// print writes the story as text.
func (story *restoreStory) print(w io.Writer) error {
	r := story.Restore
	d := &description{w: w}
	d.metadata(&r.ObjectMeta)
	d.gap()
	lines := [][2]string{{"Phase", phaseOr(string(r.Status.Phase))}}
	if r.Status.FailureReason != "" {
		lines = append(lines, [2]string{"Failure reason", r.Status.FailureReason})
	}
	d.pairs(append(lines, [2]string{"Errors", strconv.Itoa(r.Status.Errors)}, [2]string{"Warnings", strconv.Itoa(r.Status.Warnings)})...)
	printValidationErrors(d, r.Status.ValidationErrors)
	printResults(d, story.Results)
	d.gap()
	d.pairs(
		[2]string{"Started", moment(r.Status.StartTimestamp)},
		[2]string{"Completed", moment(r.Status.CompletionTimestamp)},
	)
	if p := r.Status.Progress; p != nil {
		d.gap()
		d.pairs([2]string{"Total items to be restored", strconv.Itoa(p.TotalItems)},
			[2]string{"Items restored", strconv.Itoa(p.ItemsRestored)})
	}
	d.gap()
	printRestoreSpec(d, &r.Spec)
	if story.Resources != nil {
		d.gap()
		d.resources(story.Resources)
	}
	printProblems(d, story.Problems)
	return d.err
}

func printRestoreSpec(d *description, spec *velerov1.RestoreSpec) {
	d.pairs([2]string{"Backup", orNone(spec.BackupName)}, [2]string{"Schedule", orNone(spec.ScheduleName)})
	d.gap()
	d.section("Namespaces", func() {
		d.pairs([2]string{"Included", listed(spec.IncludedNamespaces, "all namespaces found in the backup")},
			[2]string{"Excluded", listed(spec.ExcludedNamespaces, "<none>")},
			[2]string{"Mappings", lined(spec.NamespaceMapping)})
	})
	d.gap()
	d.section("Resources", func() {
		d.pairs([2]string{"Included", listed(spec.IncludedResources, "*")}, [2]string{"Excluded", listed(spec.ExcludedResources, "<none>")},
			[2]string{"Cluster-scoped", optional(spec.IncludeClusterResources)})
	})
	d.gap()
	d.pairs(
		[2]string{"Label selector", selectorText(spec.LabelSelector, spec.OrLabelSelectors)},
		[2]string{"Restore PVs", optional(spec.RestorePVs)},
		[2]string{"Existing resource policy", cmp.Or(string(spec.ExistingResourcePolicy), "<none>")},
		[2]string{"Preserve service node ports", optional(spec.PreserveNodePorts)},
		[2]string{"Item operation timeout", spec.ItemOperationTimeout.Duration.String()},
	)
}
