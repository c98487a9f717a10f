package runs

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/results"
	"github.com/cleat-dev/cleat/server/status"
	"github.com/cleat-dev/cleat/server/status/layout"
)

// describeTimeout is how long "describe" waits for the server to make a URL.
const describeTimeout = 30 * time.Second

// Description is a document about one run, which is also what -o json prints.
type Description interface {
	Print(w io.Writer) error
}

// NewDescribeCommand returns the command that describes runs. load composes the description of the run with the given
// name; files downloads what belongs in it.
func NewDescribeCommand(
	a *command.App, kind, short string,
	load func(ctx context.Context, cluster *command.Cluster, name string, files Files) (Description, error),
) *cobra.Command {
	var d Downloads
	var details bool
	output := "plaintext"
	cmd := &cobra.Command{
		Use:   "describe NAME...",
		Short: short,
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := a.Cluster.Connect()
			if err != nil {
				return err
			}
			for i, name := range args {
				if i > 0 {
					fmt.Fprintln(a.Out)
				}
				description, err := load(cmd.Context(), cluster, name, Files{downloads: &d, cluster: cluster, details: details})
				if err != nil {
					return err
				}
				if err := printDescription(a.Out, output, description); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&details, "details", false, "list all objects of the "+kind+" as well")
	cmd.Flags().StringVarP(&output, "output", "o", output, "form of the output: plaintext or json")
	d.add(cmd.Flags(), describeTimeout)
	return cmd
}

func printDescription(w io.Writer, output string, description Description) error {
	switch output {
	case "plaintext":
		return description.Print(w)
	case "json":
		return layout.PrintJSON(w, description)
	default:
		return fmt.Errorf("--output %q: want plaintext or json", output)
	}
}

// Files downloads the files of runs that a description contains.
type Files struct {
	downloads *Downloads
	cluster   *command.Cluster
	details   bool
}

// Load returns the errors and warnings of a run, if it has any, and the list of its resources, if details are wanted.
// A file that cannot be downloaded is left out and mentioned in problems.
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
