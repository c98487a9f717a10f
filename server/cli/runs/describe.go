package runs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/internal/kube/results"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

// describeTimeout is how long "describe" waits for the server to make a URL.
const describeTimeout = 30 * time.Second

// orderTimeout is how long "describe" waits for the server to report the order of a restore.
const orderTimeout = 5 * time.Second

// Description describes one run.
type Description interface {
	// Print writes the description as text.
	Print(w io.Writer) error
	// Document returns what -o json prints.
	Document() any
}

// NewDescribeCommand returns the command that describes the runs of a Getter. load composes the description of a run;
// files downloads what belongs in it.
func NewDescribeCommand[V any, P interface {
	*V
	client.Object
}, L client.ObjectList](
	a *command.App, kind, short string, g command.Getter[V, P, L],
	load func(ctx context.Context, cluster *command.Cluster, object *V, files Files) Description,
) *cobra.Command {
	var d Downloads
	var details bool
	var selector string
	output := "plaintext"
	cmd := &cobra.Command{
		Use:   "describe [NAME...]",
		Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "plaintext" && output != "json" {
				return fmt.Errorf("--output %q: want plaintext or json", output)
			}
			cluster, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			list, err := g.List(cmd.Context(), cluster, selector, args)
			if err != nil {
				return err
			}
			files := Files{downloads: &d, cluster: cluster, details: details, document: output == "json"}
			objects := *g.Items(list)
			for i := range objects {
				if i > 0 {
					fmt.Fprintln(a.Out)
				}
				description := load(cmd.Context(), cluster, &objects[i], files)
				if files.document {
					err = layout.PrintJSON(a.Out, description.Document())
				} else {
					err = description.Print(a.Out)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.ValidArgsFunction = g.Complete(a)
	cmd.Flags().BoolVar(&details, "details", false, "list all objects of the "+kind+" as well, its volumes and operations")
	command.AddSelector(cmd.Flags(), &selector, "only those whose labels match, without names")
	cmd.Flags().StringVarP(&output, "output", "o", output, "form of the output: plaintext or json")
	d.Add(cmd.Flags(), describeTimeout)
	return cmd
}

// Files downloads the files of runs that a description contains, and lists the objects that belong to them.
type Files struct {
	downloads *Downloads
	cluster   *command.Cluster
	details   bool
	document  bool // JSON is requested
}

// NewFiles returns the files of the runs of a cluster for a document with details. timeout is how long to wait for an
// answer of the server.
func NewFiles(cluster *command.Cluster, timeout time.Duration) Files {
	return Files{downloads: NewDownloads(timeout), cluster: cluster, details: true, document: true}
}

// Details reports whether details are requested.
func (f Files) Details() bool { return f.details }

// LoadOrder returns the order of a restore: from the server while the restore is at work and, if details or JSON are
// requested, from its file afterwards. Without them it is nil.
func (f Files) LoadOrder(
	ctx context.Context, r *velerov1.Restore, atWork bool, location string,
) (order *outcome.Plan, problems []string) {
	if atWork {
		report, err := f.cluster.Restoring(ctx, orderTimeout, serverreport.RestoreQuestion{Restore: r.Name})
		switch {
		case err != nil:
			return nil, []string{err.Error()}
		case report != nil:
			return report.Plan, nil
		}
		return nil, nil
	}
	if !f.details && !f.document || !status.RestoreRun(r).HasLog() {
		return nil, nil
	}
	content, err := f.downloads.Items(ctx, f.cluster, r, location, func(outcome.Item) error { return nil })
	if err != nil && !errors.Is(err, ErrNoFile) { // Velero's have none
		problems = append(problems, err.Error())
	}
	return content.Plan, problems
}

// List lists the objects of the namespace with the label of a run. A failure is added to problems.
func (f Files) List(ctx context.Context, into client.ObjectList, label, run string) (problems []string) {
	err := f.cluster.List(ctx, into, client.InNamespace(f.cluster.Namespace),
		client.MatchingLabels{label: velerov1.ValidLabelValue(run)})
	if err != nil {
		problems = append(problems, err.Error())
	}
	return problems
}

// Load returns the errors and warnings of a run, if it has any, and the list of its resources, if details are
// requested. A file that cannot be downloaded is left out and added to problems.
func (f Files) Load(
	ctx context.Context, run status.Run, resultsFile, resourcesFile velerov1.DownloadTargetKind, location string,
) (found *results.Results, resources map[string][]string, problems []string) {
	if !run.HasLog() {
		return nil, nil, nil
	}
	if run.Errors+run.Warnings > 0 {
		r, err := fetch[results.Results](ctx, f.downloads, f.cluster, resultsFile, run.Name, location)
		if err != nil {
			problems = append(problems, err.Error())
		} else {
			found = &r
		}
	}
	if f.details {
		list, err := fetch[map[string][]string](ctx, f.downloads, f.cluster, resourcesFile, run.Name, location)
		if err != nil {
			problems = append(problems, err.Error())
		}
		resources = list
	}
	return found, resources, problems
}

// LoadVolumes downloads the file about the volumes of a backup or restore, if details or JSON are requested and there
// is one. Otherwise it returns the zero value of T and the problem.
func LoadVolumes[T any](
	ctx context.Context, f Files, run status.Run, file velerov1.DownloadTargetKind, location string,
) (value T, problems []string) {
	if !f.details && !f.document || !run.HasLog() {
		return value, nil
	}
	value, err := fetch[T](ctx, f.downloads, f.cluster, file, run.Name, location)
	if err != nil {
		problems = append(problems, err.Error())
	}
	return value, problems
}
