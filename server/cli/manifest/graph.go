package manifest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/manifest/render"
)

func newGraphCommand(a *command.App) *cobra.Command {
	var f flags
	var selecting selectionFlags
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
			if err := command.CheckForm(f.output, render.Forms()...); err != nil {
				return err
			}
			selection, err := selecting.Build()
			if err != nil {
				return err
			}
			if len(args) > 1 {
				named, err := parseItem(args[1:])
				if err != nil {
					return err
				}
				if !selection.Everything() {
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
			graph, err := g.load(cmd.Context(), s, selection)
			if err := closeAll(err, s); err != nil {
				return err
			}
			return g.print(a.Out, f.output, graph)
		},
	}
	f.add(cmd, render.Forms()...)
	selecting.Add(cmd.Flags())
	cmd.Flags().IntVar(&g.depth, "depth", 0, "how many dependencies away from the item to go; 0 for all")
	cmd.Flags().BoolVar(&g.referrers, "referrers", false, "show what depends on the item, rather than what it depends on")
	cmd.Flags().IntVar(&g.limit, "limit", 200, "the number of items of which each gets a box in a picture; 0 for any")
	return cmd
}

type graphFlags struct {
	item         *named // nil for all items
	depth, limit int
	referrers    bool
}

// load reads the graph of a manifest, with the items and edges that the flags select.
func (g *graphFlags) load(ctx context.Context, s *source, selection *selection) (*render.Graph, error) {
	if g.depth < 0 || g.limit < 0 {
		return nil, errors.New("--depth and --limit: want a number that is not negative")
	}
	options := render.Options{Title: filepath.Base(s.name)}
	var asked manifest.Ref
	if g.item != nil {
		item, err := g.item.find(ctx, s)
		if err != nil {
			return nil, err
		}
		asked = item.Ref()
		options.Title = fmt.Sprintf("%s in %s", nameOf(item), options.Title)
	}
	m := manifest.New()
	var shown []*manifest.Item
	for item, err := range s.Items(ctx) {
		if err != nil {
			return nil, err
		}
		matches, err := selection.Match(item)
		if err != nil {
			return nil, err
		}
		item.Labels, item.Annotations = nil, nil // which take most of the memory
		if _, err := m.Add(item); err != nil {
			return nil, s.failed(err)
		}
		if matches {
			shown = append(shown, item)
		}
	}
	options.Graph, options.Items = m.Graph(), shown
	if g.item != nil {
		asked.UID = "" // another item may have the same
		if options.Asked = m.Find(asked); options.Asked == nil {
			return nil, s.failed(errors.New("the manifest was replaced while it was read, try again"))
		}
		options.Closed = g.referrers
		options.Items = reach(options.Graph, options.Asked, g.depth, g.referrers)
	}
	return render.New(options), nil
}

func (g *graphFlags) print(w io.Writer, form string, graph *render.Graph) error {
	switch form {
	case "json", "yaml":
		return printOne(w, form, graph)
	}
	return graph.Print(w, form, g.limit, g.referrers)
}

// reach returns an item with its direct and indirect dependencies, or with its dependents. depth limits the distance,
// unless it is 0.
func reach(graph *manifest.Graph, item *manifest.Item, depth int, referrers bool) []*manifest.Item {
	found, seen := []*manifest.Item{item}, map[*manifest.Item]bool{item: true}
	for begin, level := 0, 0; begin < len(found) && (depth == 0 || level < depth); level++ {
		last := found[begin:]
		begin = len(found)
		for _, from := range last {
			links := graph.Links(from)
			if referrers {
				links = graph.Referrers(from)
			}
			for _, link := range links {
				other := link.Item
				if referrers {
					other = link.From
				}
				if other != nil && !seen[other] {
					seen[other] = true
					found = append(found, other)
				}
			}
		}
	}
	return found
}
