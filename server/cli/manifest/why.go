package manifest

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status/layout"
)

func newWhyCommand(a *command.App) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "why BACKUP|FILE ITEM",
		Short: "Show how an item came into a backup",
		Long: "Show the chain by which an item came into a backup: filters, the order in the backup, actions of plugins " +
			"with the items for which\n" +
			"they have requested it. Then show which other items depend on it.",
		Example:           "  cleat manifest why nightly persistentvolumes/pv-0001",
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
			document, err := explain(cmd.Context(), s, name)
			if err := closeAll(err, s); err != nil {
				return err
			}
			if f.output != "plaintext" {
				return printOne(a.Out, f.output, document)
			}
			return document.print(a.Out)
		},
	}
	f.add(cmd, "plaintext")
	return cmd
}

// explanation is the document of "manifest why".
type explanation struct {
	Item      manifest.Ref `json:"item"`
	Chain     []step       `json:"chain"`
	Referrers []referrer   `json:"referrers"`
}

// step is how one item of the chain came into the backup.
type step struct {
	Item     manifest.Ref       `json:"item"`
	Included manifest.Inclusion `json:"included,omitzero"`
	// Ends is why the chain ends here although the item was requested for another one.
	Ends string `json:"ends,omitempty"`
}

// longestChain is the number of items of a chain that are shown. A manifest may hold a chain of any length.
const longestChain = 100

// explain returns how the item came into the backup, and what depends on it.
func explain(ctx context.Context, s *source, name named) (*explanation, error) {
	item, err := name.find(ctx, s)
	if err != nil {
		return nil, err
	}
	doc := &explanation{Item: item.Ref(), Referrers: []referrer{}}
	passed := map[string]bool{}
	for next := item; next != nil; {
		passed[nameOf(next)] = true
		doc.Chain = append(doc.Chain, step{Item: next.Ref(), Included: next.Included})
		of := next.Included.Of
		if next = nil; of == nil {
			break
		}
		ends := ""
		switch {
		case passed[nameOfRef(*of)]:
			ends = "it is requested in a circle"
		case len(doc.Chain) == longestChain:
			ends = "the chain goes on"
		default:
			if next, err = lookUp(ctx, s, *of); err != nil {
				return nil, err
			}
			if next == nil {
				ends = "it is not in the backup"
			}
		}
		if ends != "" {
			doc.Chain = append(doc.Chain, step{Item: *of, Ends: ends})
		}
	}
	found, err := referrersOf(s.Items(ctx), item)
	doc.Referrers = append(doc.Referrers, found...)
	return doc, err
}

// lookUp returns the item that a reference of the manifest means, or nil if it has none.
func lookUp(ctx context.Context, s *source, ref manifest.Ref) (*manifest.Item, error) {
	for item, err := range s.Of(ctx, manifest.Ref{Group: ref.Group, Resource: ref.Resource, Namespace: ref.Namespace,
		Name: ref.Name}) {
		if err != nil {
			return nil, err
		}
		if item.APIGroup == ref.Group && (ref.Resource == item.Resource || ref.Resource == "" && ref.Kind == item.ItemKind) &&
			item.Namespace == ref.Namespace && item.Name == ref.Name {
			return item, nil
		}
	}
	return nil, nil
}

func (doc *explanation) print(w io.Writer) error {
	d := layout.NewDescription(w)
	d.Line("%s is in the backup:", nameOfRef(doc.Item))
	for i, s := range doc.Chain {
		text := because(s.Included)
		if s.Ends != "" {
			text = s.Ends
		}
		d.Indented(i+1, func() { d.Line("%s: %s", nameOfRef(s.Item), layout.OneLine(text)) })
	}
	d.Gap()
	printEdges(d, "Needed by", len(doc.Referrers),
		func(i int) (manifest.Edge, manifest.Ref) { return doc.Referrers[i].Edge, doc.Referrers[i].Item })
	return d.Err()
}
