package manifest

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status/contents"
	"github.com/cleat-dev/cleat/server/internal/kube/itemname"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
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
			name, err := itemname.Parse(args[1:]...)
			if err != nil {
				return err
			}
			open := opener{app: a, downloads: &f.downloads, stdin: cmd.InOrStdin()}
			s, err := open.open(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			document, err := s.Why(cmd.Context(), name, contents.Page{})
			if err := closeAll(err, s); err != nil {
				return err
			}
			if f.output != "plaintext" {
				return printOne(a.Out, f.output, document)
			}
			return printExplanation(a.Out, document)
		},
	}
	f.add(cmd, "plaintext")
	return cmd
}

func printExplanation(w io.Writer, doc *contents.Explanation) error {
	d := layout.NewDescription(w)
	d.Line("%s is in the backup:", contents.NameOf(doc.Item))
	for i := range doc.Chain {
		step := &doc.Chain[i]
		d.Indented(i+1, func() { d.Line("%s: %s", contents.NameOf(step.Item), layout.OneLine(step.Sentence())) })
	}
	d.Gap()
	printEdges(d, "Needed by", len(doc.Referrers),
		func(i int) (manifest.Edge, manifest.Ref) { return doc.Referrers[i].Edge, doc.Referrers[i].Item })
	return d.Err()
}
