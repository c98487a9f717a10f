package manifest

import (
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status/layout"
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
			name, err := parseItem(args[1:])
			if err != nil {
				return err
			}
			open := opener{app: a, downloads: &f.downloads, stdin: cmd.InOrStdin()}
			s, err := open.open(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			document := itemDocument{}
			if document.Item, err = name.find(cmd.Context(), s); err == nil && referrers {
				document.Referrers, err = referrersOf(s.Items(cmd.Context()), document.Item)
			}
			if err := closeAll(err, s); err != nil {
				return err
			}
			if f.output != "plaintext" {
				return printOne(a.Out, f.output, document)
			}
			return document.print(a.Out, referrers)
		},
	}
	f.add(cmd, "plaintext")
	cmd.Flags().BoolVar(&referrers, "referrers", false,
		"show what depends on the item too, for which the whole manifest is read")
	return cmd
}

// itemDocument is the document of "manifest get".
type itemDocument struct {
	*manifest.Item
	Referrers []referrer `json:"referrers,omitempty"`
}

// referrer is an item that depends on another one.
type referrer struct {
	Item manifest.Ref  `json:"item"`
	Edge manifest.Edge `json:"edge"`
}

// referrersOf returns the items that depend on wanted.
func referrersOf(items iter.Seq2[*manifest.Item, error], wanted *manifest.Item) ([]referrer, error) {
	target := manifest.New() // with one item, which decides what means it
	copied := *wanted
	if _, err := target.Add(&copied); err != nil {
		return nil, err
	}
	var found []referrer
	for item, err := range items {
		if err != nil {
			return nil, err
		}
		for _, edge := range item.Edges {
			if target.Find(edge.To) != nil {
				found = append(found, referrer{Item: item.Ref(), Edge: edge})
			}
		}
	}
	return found, nil
}

func (doc *itemDocument) print(w io.Writer, referrers bool) error {
	item := doc.Item
	d := layout.NewDescription(w)
	version := item.APIVersion
	if item.APIGroup != "" {
		version = item.APIGroup + "/" + version
	}
	d.Pairs(
		[2]string{"Item", nameOf(item)},
		[2]string{"Kind", layout.OneLine(item.ItemKind + ", " + version)},
		[2]string{"UID", layout.OneLine(layout.OrNone(item.UID))},
		[2]string{"Included", layout.OneLine(because(item.Included))},
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
			rows = append(rows, []string{strength(e), layout.OneLine(string(e.Type)), nameOfRef(other), foundIn(e)})
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

// because returns how an item came into a backup, as a part of a sentence.
func because(i manifest.Inclusion) string {
	of := "another item"
	if i.Of != nil {
		of = nameOfRef(*i.Of)
	}
	switch i.By {
	case manifest.ByFilters:
		return "the filters of the backup select it"
	case manifest.ByOrder:
		return "the backup names it in orderedResources"
	case manifest.ByAction:
		return fmt.Sprintf("the action %s has requested it for %s", layout.OrNone(i.Plugin), of)
	case manifest.ByBlock:
		return fmt.Sprintf("the item block action %s has put it into the block of %s", layout.OrNone(i.Plugin), of)
	case manifest.ByContent:
		return "it is the namespace or the definition of other items"
	case "":
		return "nobody has recorded why"
	default:
		return i.By
	}
}
