package manifest

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status/contents"
	"github.com/cleat-dev/cleat/server/cli/status/drawing"
	"github.com/cleat-dev/cleat/server/internal/kube/itemname"
)

func newGraphCommand(a *command.App) *cobra.Command {
	var f flags
	var filters FilterFlags
	var g graphFlags
	cmd := &cobra.Command{
		Use:   "graph BACKUP|FILE [ITEM]",
		Short: "Show how the items of a backup depend on each other",
		Long: "Show how the items of a backup depend on each other, or what one item depends on: as a tree of text, for " +
			"Graphviz (dot) or Mermaid,\n" +
			"as a picture (svg), a page to search in (html), or json. Cycles, and what is not in the backup, are marked. A " +
			"picture with more\n" +
			"items than --limit shows one box for the items of each resource and namespace, or of each resource.",
		Example: "  cleat manifest graph nightly deployments.apps/shop/web\n  cleat manifest graph nightly deploy shop/web " +
			"--referrers --depth 2\n" +
			"  cleat manifest graph nightly --include-namespaces shop -o svg > shop.svg",
		Args:              cobra.RangeArgs(1, 3),
		ValidArgsFunction: completeBackups(a, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckForm(f.output, drawing.Forms()...); err != nil {
				return err
			}
			selected, err := filters.Filters()
			if err != nil {
				return err
			}
			if len(args) > 1 {
				named, err := itemname.Parse(args[1:]...)
				if err != nil {
					return err
				}
				if !selected.Everything() {
					return errors.New("filters cannot be used together with an item")
				}
				g.item = &named
			} else if g.depth > 0 || g.referrers && f.output != "tree" {
				return errors.New("--depth needs an item, and so does --referrers unless the output is a tree")
			}
			open := opener{app: a, downloads: &f.downloads, stdin: cmd.InOrStdin()}
			s, err := open.open(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			graph, err := g.load(cmd.Context(), s, selected)
			if err := closeAll(err, s); err != nil {
				return err
			}
			return g.print(a.Out, f.output, graph)
		},
	}
	f.add(cmd, drawing.Forms()...)
	filters.Add(cmd.Flags())
	cmd.Flags().IntVar(&g.depth, "depth", 0, "how many dependencies away from the item to go; 0 for all")
	cmd.Flags().BoolVar(&g.referrers, "referrers", false, "show what depends on the item, rather than what it depends on")
	cmd.Flags().IntVar(&g.limit, "limit", 200, "the number of items of which each gets a box in a picture; 0 for any")
	return cmd
}

type graphFlags struct {
	item         *itemname.Name // nil for all items
	depth, limit int
	referrers    bool
}

// load returns the graph of what the flags select.
func (g *graphFlags) load(ctx context.Context, s *Source, filters contents.Filters) (*drawing.Graph, error) {
	if g.depth < 0 || g.limit < 0 {
		return nil, errors.New("--depth and --limit: want a number that is not negative")
	}
	if g.item == nil {
		selection, err := contents.NewSelection(filters)
		if err != nil {
			return nil, err
		}
		return s.Graph(ctx, selection, 0)
	}
	item, err := s.Find(ctx, *g.item)
	if err != nil {
		return nil, err
	}
	return s.Around(ctx, item, contents.Around{Needs: !g.referrers, Referrers: g.referrers, Depth: g.depth})
}

func (g *graphFlags) print(w io.Writer, form string, graph *drawing.Graph) error {
	switch form {
	case "json", "yaml":
		return printOne(w, form, graph)
	}
	return graph.Print(w, form, g.limit, g.referrers)
}
