package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/results"
)

// describeTimeout is how long "describe" waits for the server to make a URL.
const describeTimeout = 30 * time.Second

func (a *App) backupDescribeCommand() *cobra.Command {
	var d downloads
	var details bool
	output := "plaintext"
	cmd := &cobra.Command{
		Use:   "describe NAME...",
		Short: "Describe backups: phase, errors and warnings, and with --details what is in them",
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
				story, err := s.backupStory(cmd.Context(), &d, name, details)
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
	cmd.Flags().BoolVar(&details, "details", false, "list all objects of the backup as well")
	cmd.Flags().StringVarP(&output, "output", "o", output, "form of the output: plaintext or json")
	d.add(cmd.Flags(), describeTimeout)
	return cmd
}

// describe prints a story in the form that was asked for.
func describe(w io.Writer, output string, story any, plain func(io.Writer) error) error {
	switch output {
	case "plaintext":
		return plain(w)
	case "json":
		return printJSON(w, story)
	default:
		return fmt.Errorf("--output %q: want plaintext or json", output)
	}
}

// backupStory is what there is to tell of a backup.
type backupStory struct {
	Backup    *velerov1.Backup    `json:"backup"`
	QueueWait *velerov1.QueueWait `json:"queueWait,omitempty"` // of a Queued one
	Starts    string              `json:"starts,omitempty"`    // what has to happen so that a Queued one does, in words
	Results   *results.Results    `json:"results,omitempty"`
	Resources map[string][]string `json:"resourceList,omitempty"`
	Deletions []deletionStory     `json:"deletionAttempts,omitempty"`
	Problems  []string            `json:"problems,omitempty"` // what could not be found out
}

// deletionStory is one attempt to delete a backup.
type deletionStory struct {
	Time   string   `json:"time"`
	Phase  string   `json:"phase"`
	Errors []string `json:"errors,omitempty"`
}

// newBackupStory is what the Backup itself tells.
func newBackupStory(b *velerov1.Backup) *backupStory {
	story := &backupStory{Backup: b}
	if b.Status.Phase != velerov1.BackupPhaseQueued {
		return story
	}
	wait, err := velerov1.QueueWaitOf(b)
	if err != nil {
		story.Problems = append(story.Problems, err.Error())
	}
	story.QueueWait = wait
	return story
}

// backupStory gathers it. That files cannot be downloaded is told, too; the rest is told all the same.
func (s *session) backupStory(ctx context.Context, d *downloads, name string, details bool) (*backupStory, error) {
	b := new(velerov1.Backup)
	if err := s.Get(ctx, s.key(name), b); err != nil {
		return nil, err
	}
	b.APIVersion, b.Kind = velerov1.SchemeGroupVersion.String(), "Backup"
	story := newBackupStory(b)
	if story.QueueWait != nil {
		if line, err := s.line(ctx); err != nil {
			story.Problems = append(story.Problems, err.Error())
		} else {
			story.Starts = explain(b, line, time.Now()).Starts
		}
	}
	if stored := logStored(string(b.Status.Phase)); stored && b.Status.Errors+b.Status.Warnings > 0 {
		r, err := fetch[results.Results](ctx, d, s, velerov1.DownloadTargetKindBackupResults, name, b.Spec.StorageLocation)
		if err != nil {
			story.Problems = append(story.Problems, err.Error())
		} else {
			story.Results = &r
		}
	}
	if stored := logStored(string(b.Status.Phase)); stored && details {
		list, err := fetch[map[string][]string](ctx, d, s, velerov1.DownloadTargetKindBackupResourceList, name, b.Spec.StorageLocation)
		if err != nil {
			story.Problems = append(story.Problems, err.Error())
		}
		story.Resources = list
	}
	var requests velerov1.DeleteBackupRequestList
	err := s.List(ctx, &requests, client.InNamespace(s.namespace), client.MatchingLabels{velerov1.BackupNameLabel: velerov1.ValidLabelValue(name)})
	if err != nil {
		story.Problems = append(story.Problems, err.Error())
	}
	for i := range requests.Items {
		r := &requests.Items[i]
		story.Deletions = append(story.Deletions, deletionStory{
			Time: moment(&r.CreationTimestamp), Phase: phaseOr(string(r.Status.Phase)), Errors: r.Status.Errors,
		})
	}
	return story, nil
}

// print writes the story as text.
func (story *backupStory) print(w io.Writer) error {
	b := story.Backup
	d := &description{w: w}
	d.metadata(&b.ObjectMeta)
	d.gap()
	story.printPhase(d)
	d.gap()
	printBackupSpec(d, &b.Spec)
	d.gap()
	d.pairs(
		[2]string{"Backup Format Version", orNone(b.Status.FormatVersion)},
		[2]string{"Started", moment(b.Status.StartTimestamp)},
		[2]string{"Completed", moment(b.Status.CompletionTimestamp)},
		[2]string{"Expiration", moment(b.Status.Expiration)},
	)
	if p := b.Status.Progress; p != nil {
		d.gap()
		d.pairs([2]string{"Total items to be backed up", strconv.Itoa(p.TotalItems)},
			[2]string{"Items backed up", strconv.Itoa(p.ItemsBackedUp)})
	}
	if story.Resources != nil {
		d.gap()
		d.resources(story.Resources)
	}
	story.printDeletions(d)
	printProblems(d, story.Problems)
	return d.err
}

// printPhase tells how the backup ended, or where it is.
func (story *backupStory) printPhase(d *description) {
	status := &story.Backup.Status
	lines := [][2]string{{"Phase", phaseOr(string(status.Phase))}}
	if status.Phase == velerov1.BackupPhaseQueued {
		lines = append(lines, [2]string{"Queue position", strconv.Itoa(status.QueuePosition)})
	}
	if wait := story.QueueWait; wait != nil {
		lines = append(lines, [2]string{"Waits because", oneLine(cmp.Or(wait.Message, wait.Reason))},
			[2]string{"Waits for", orNone(some(wait.Blockers, 8, ", "))}, [2]string{"Waits so since", moment(&wait.Since)})
	}
	if story.Starts != "" {
		lines = append(lines, [2]string{"Starts", story.Starts})
	}
	if status.FailureReason != "" {
		lines = append(lines, [2]string{"Failure reason", status.FailureReason})
	}
	d.pairs(append(lines, [2]string{"Errors", strconv.Itoa(status.Errors)}, [2]string{"Warnings", strconv.Itoa(status.Warnings)})...)
	printValidationErrors(d, status.ValidationErrors)
	printResults(d, story.Results)
}

func printValidationErrors(d *description, errs []string) {
	if len(errs) == 0 {
		return
	}
	d.gap()
	d.section("Validation errors", func() {
		for _, text := range errs {
			d.line("%s", text)
		}
	})
}

func printResults(d *description, r *results.Results) {
	if r == nil {
		return
	}
	if r.Errors.Count() > 0 {
		d.gap()
		d.messages("Errors", r.Errors)
	}
	if r.Warnings.Count() > 0 {
		d.gap()
		d.messages("Warnings", r.Warnings)
	}
}

func printProblems(d *description, problems []string) {
	if len(problems) == 0 {
		return
	}
	d.gap()
	d.section("Not found out", func() {
		for _, text := range problems {
			d.line("%s", text)
		}
	})
}

func printBackupSpec(d *description, spec *velerov1.BackupSpec) {
	d.section("Namespaces", func() {
		d.pairs([2]string{"Included", listed(spec.IncludedNamespaces, "*")}, [2]string{"Excluded", listed(spec.ExcludedNamespaces, "<none>")})
	})
	d.gap()
	d.section("Resources", func() {
		if len(spec.IncludedResources)+len(spec.ExcludedResources) > 0 || spec.IncludeClusterResources != nil {
			d.pairs([2]string{"Included", listed(spec.IncludedResources, "*")}, [2]string{"Excluded", listed(spec.ExcludedResources, "<none>")},
				[2]string{"Cluster-scoped", optional(spec.IncludeClusterResources)})
			return
		}
		d.pairs(
			[2]string{"Included cluster-scoped", listed(spec.IncludedClusterScopedResources, "auto")},
			[2]string{"Excluded cluster-scoped", listed(spec.ExcludedClusterScopedResources, "<none>")},
			[2]string{"Included namespace-scoped", listed(spec.IncludedNamespaceScopedResources, "*")},
			[2]string{"Excluded namespace-scoped", listed(spec.ExcludedNamespaceScopedResources, "<none>")})
	})
	d.gap()
	d.pairs(
		[2]string{"Label selector", selectorText(spec.LabelSelector, spec.OrLabelSelectors)},
		[2]string{"Storage Location", orNone(spec.StorageLocation)},
		[2]string{"Snapshot volumes", optional(spec.SnapshotVolumes)},
		[2]string{"Snapshot move data", optional(spec.SnapshotMoveData)},
		[2]string{"TTL", spec.TTL.Duration.String()},
		[2]string{"CSI snapshot timeout", spec.CSISnapshotTimeout.Duration.String()},
		[2]string{"Item operation timeout", spec.ItemOperationTimeout.Duration.String()},
	)
	if len(spec.OrderedResources) > 0 {
		d.gap()
		d.pairs([2]string{"Ordered resources", lined(spec.OrderedResources)})
	}
	if len(spec.Hooks.Resources) > 0 {
		d.gap()
		d.section("Hooks", func() {
			for _, hook := range spec.Hooks.Resources {
				d.line("%s: %s, %s", hook.Name, counted(len(hook.PreHooks), "pre hook"), counted(len(hook.PostHooks), "post hook"))
			}
		})
	}
}

func (story *backupStory) printDeletions(d *description) {
	if len(story.Deletions) == 0 {
		return
	}
	d.gap()
	d.section("Deletion attempts", func() {
		for _, attempt := range story.Deletions {
			d.line("%s: %s", attempt.Time, attempt.Phase)
			d.indent++
			for _, text := range attempt.Errors {
				d.line("%s", text)
			}
			d.indent--
		}
	})
}
