package restore

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	velerov1 "github.com/cleat-dev/cleat/framework/api/velero/v1"
	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/runs"
	"github.com/cleat-dev/cleat/server/cli/status/drawing"
	"github.com/cleat-dev/cleat/server/internal/bucket/outcome"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
	"github.com/cleat-dev/cleat/server/internal/report/serverreport"
)

func newGraphCommand(a *command.App) *cobra.Command {
	var output string
	var limit int
	var downloads runs.Downloads
	cmd := &cobra.Command{
		Use:   "graph NAME",
		Short: "Show what is left of a restore, and what waits for what",
		Long: "Show the items that a restore at work has not ended, and which of them wait for which. Of a restore that " +
			"has ended,\n" +
			"show the items that it did not restore.",
		Example: "  cleat restore graph nightly-20260102150405 -o svg > left.svg",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 || limit > serverreport.MaxRestoring {
				return fmt.Errorf("--limit %d: want 1 to %d", limit, serverreport.MaxRestoring)
			}
			cluster, r, err := find(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			left, err := left(cmd.Context(), cluster, &downloads, r, limit)
			if err != nil {
				return err
			}
			if left.More > 0 {
				fmt.Fprintf(a.Err, "%s not shown; see --limit\n", layout.Count(left.More, "more item"))
			}
			return a.Print(output, drawing.Forms(), left, func() error {
				graph, err := graphOf(left)
				if err != nil {
					return err
				}
				return graph.Print(a.Out, output, limit, false)
			})
		},
	}
	command.AddOutput(cmd, &output, drawing.Forms()...)
	cmd.ValidArgsFunction = getter().Complete(a)
	cmd.Flags().IntVar(&limit, "limit", 200, "the largest number of items that are shown")
	downloads.Add(cmd.Flags(), askTimeout)
	return cmd
}

// left returns the items that a restore has not ended, or did not restore.
func left(
	ctx context.Context, cluster *command.Cluster, downloads *runs.Downloads, r *velerov1.Restore, limit int,
) (*serverreport.Restoring, error) {
	if isAtWork(r) {
		report, err := cluster.Restoring(ctx, downloads.Timeout(),
			serverreport.RestoreQuestion{Restore: r.Name, Left: limit})
		if report != nil || err != nil {
			return report, err
		}
	}
	report := &serverreport.Restoring{Restore: r.Name}
	content, err := readItems(ctx, cluster, downloads, r, func(i outcome.Item) error {
		switch {
		case i.Outcome != outcome.Failed && i.Outcome != outcome.Refused && i.Outcome != outcome.Conflict:
		case len(report.Items) == limit:
			report.More++
		default:
			report.Items = append(report.Items, i)
		}
		return nil
	})
	report.Plan = content.Plan
	return report, err
}

// graphOf returns the graph of items that are left. Of what they need, it has what is left.
func graphOf(left *serverreport.Restoring) (*drawing.Graph, error) {
	m, isLeft := manifest.New(), map[outcome.Ref]bool{}
	for i := range left.Items {
		isLeft[left.Items[i].Source()] = true
	}
	items := make([]*manifest.Item, 0, len(left.Items))
	for i := range left.Items {
		ref := refOf(left.Items[i].Source())
		one := &manifest.Item{APIGroup: ref.Group, APIVersion: "v1", Resource: ref.Resource, ItemKind: ref.Resource,
			Namespace: ref.Namespace, Name: ref.Name}
		for _, need := range left.Items[i].Needs {
			if isLeft[need.Ref] {
				one.Edges = append(one.Edges, manifest.Edge{Type: manifest.Reference, Strict: need.Strict, To: refOf(need.Ref)})
			}
		}
		if _, err := m.Add(one); err != nil {
			return nil, fmt.Errorf("draw what is left of restore %s: %w", left.Restore, err)
		}
		items = append(items, one)
	}
	title := "what is left of restore " + left.Restore
	return drawing.New(drawing.Options{Title: title, Graph: m.Graph(), Items: items}), nil
}

func refOf(ref outcome.Ref) manifest.Ref {
	gr := schema.ParseGroupResource(ref.Resource)
	return manifest.Ref{Group: gr.Group, Resource: gr.Resource, Namespace: ref.Namespace, Name: ref.Name}
}
