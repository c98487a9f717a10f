package manifest

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status/contents"
	"github.com/cleat-dev/cleat/server/internal/kube/itemname"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

func newGetCommand(a *command.App) *cobra.Command {
	var f flags
	var referrers bool
	cmd := &cobra.Command{
		Use:   "get BACKUP|FILE ITEM",
		Short: "Show an item of a backup, and what it depends on",
		Long: "Show an item of a backup, and what it depends on: what must exist before it (strict) and what else it " +
			"refers to (soft), and in which\n" +
			"field. Only the part of the manifest that has the item is read, if the object storage allows it. With " +
			"--referrers, all of it\n" +
			"is read, to show what depends on the item.",
		Example: "  cleat manifest get nightly deployments.apps/shop/web\n  cleat manifest get nightly pvc shop/data " +
			"--referrers\n" +
			"  cleat manifest get nightly-manifest.json.gz Namespace/shop -o yaml",
		Args:              itemArgs,
		ValidArgsFunction: completeBackups(a, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckForm(f.output, "plaintext"); err != nil {
				return err
			}
			name, err := itemname.Parse(args[1:]...)
			if err != nil {
				return err
			}
			open := opener{app: a, downloads: &f.downloads, stdin: cmd.InOrStdin()}
			s, err := open.open(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			var all *contents.Page
			if referrers {
				all = &contents.Page{}
			}
			document, err := s.Item(cmd.Context(), name, all)
			if err := closeAll(err, s); err != nil {
				return err
			}
			if f.output != "plaintext" {
				return printOne(a.Out, f.output, document)
			}
			return printItem(a.Out, document, referrers)
		},
	}
	f.add(cmd, "plaintext")
	cmd.Flags().BoolVar(&referrers, "referrers", false,
		"show what depends on the item too, for which the whole manifest is read")
	return cmd
}

func printItem(w io.Writer, doc *contents.Item, referrers bool) error {
	item := doc.Item
	d := layout.NewDescription(w)
	version := item.APIVersion
	if item.APIGroup != "" {
		version = item.APIGroup + "/" + version
	}
	d.Pairs(
		[2]string{"Item", contents.NameOf(item.Ref())},
		[2]string{"Kind", layout.OneLine(item.ItemKind + ", " + version)},
		[2]string{"UID", layout.OneLine(layout.OrNone(item.UID))},
		[2]string{"Included", layout.OneLine(contents.Because(item.Included))},
		[2]string{"Labels", layout.Printable(layout.KeyValues(item.Labels))},
		[2]string{"Annotations", layout.Printable(layout.KeyValues(item.Annotations))},
	)
	d.Gap()
	printEdges(d, "Depends on", len(item.Edges), func(i int) (manifest.Edge, manifest.Ref) {
		return item.Edges[i], item.Edges[i].To
	})
	if referrers {
		printEdges(d, "Needed by", len(doc.Referrers),
			func(i int) (manifest.Edge, manifest.Ref) { return doc.Referrers[i].Edge, doc.Referrers[i].Item })
	}
	return d.Err()
}

// printEdges writes dependencies, aligned. other is the item at the other end.
func printEdges(d *layout.Description, head string, n int, edge func(i int) (e manifest.Edge, other manifest.Ref)) {
	if n == 0 {
		d.Pairs([2]string{head, "<none>"})
		return
	}
	d.Section(head, func() {
		var rows [][]string
		for i := range n {
			e, other := edge(i)
			rows = append(rows, []string{strength(e), layout.OneLine(string(e.Type)), contents.NameOf(other), foundIn(e)})
		}
		var text strings.Builder
		_ = layout.Table{Rows: rows[1:], Head: rows[0]}.Print(&text) // a builder does not fail
		d.Text(text.String())
	})
}

func strength(e manifest.Edge) string {
	if e.Strict {
		return "strict"
	}
	return "soft"
}

// foundIn returns where a dependency comes from.
func foundIn(e manifest.Edge) string {
	if e.Plugin != "" {
		return layout.OneLine("requested by " + e.Plugin)
	}
	return layout.OneLine(e.Path)
}
