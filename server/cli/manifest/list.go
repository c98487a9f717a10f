package manifest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status/contents"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

func newListCommand(a *command.App) *cobra.Command {
	var f flags
	var filters FilterFlags
	var count bool
	cmd := &cobra.Command{
		Use:     "ls BACKUP|FILE",
		Aliases: []string{"list"},
		Short:   "List the items of a backup",
		Long: "List the items of a backup, and how each came into it. The filters are those of a new backup: without any, " +
			"all items are listed;\n" +
			"with namespaces, cluster-scoped items are left out unless a filter asks for them.",
		Example: "  cleat manifest ls nightly\n  cleat manifest ls nightly --include-namespaces shop -l app=web\n" +
			"  cleat manifest ls nightly --include-resources deploy,Secret -o name\n  cleat manifest ls nightly --count\n" +
			"  cleat manifest ls nightly --search web",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeBackups(a, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckForm(f.output, "table", "name"); err != nil {
				return err
			}
			selection, err := filters.Selection()
			if err != nil {
				return err
			}
			open := opener{app: a, downloads: &f.downloads, stdin: cmd.InOrStdin()}
			s, err := open.open(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if count {
				err = printCounts(cmd.Context(), a.Out, f.output, s, selection)
			} else {
				err = printItems(a.Out, f.output, s.Items(cmd.Context(), selection))
			}
			if err == nil {
				for _, sentence := range selection.Unknown() {
					fmt.Fprintln(a.Err, "Warning:", layout.OneLine(sentence))
				}
			}
			return closeAll(err, s)
		},
	}
	f.add(cmd, "table", "name")
	filters.Add(cmd.Flags())
	cmd.Flags().BoolVar(&count, "count", false, "count the items of each resource")
	return cmd
}

// printItems lists items as they come.
func printItems(w io.Writer, form string, items iter.Seq2[*manifest.Item, error]) error {
	switch form {
	case "json", "yaml":
		return printList(w, form, items)
	case "name":
		for item, err := range items {
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(w, contents.NameOf(item.Ref())); err != nil {
				return err
			}
		}
		return nil
	}
	t, err := newTable(w, "RESOURCE", "NAMESPACE", "NAME", "VERSION", "INCLUDED")
	if err != nil {
		return err
	}
	for item, err := range items {
		if err != nil {
			return err
		}
		if err := t.row(contents.ResourceOf(item.Ref()), item.Namespace, item.Name, item.APIVersion,
			inclusion(item.Included)); err != nil {
			return err
		}
	}
	return t.end()
}

// inclusion returns briefly how an item came into a backup.
func inclusion(i manifest.Inclusion) string {
	text := cmp.Or(i.By, "<unknown>")
	if i.Plugin != "" {
		text += " " + i.Plugin
	}
	if i.Of != nil {
		text += " of " + contents.NameOf(*i.Of)
	}
	return text
}

// resourceCount is the number of items of a resource.
type resourceCount struct {
	Resource string `json:"resource"`
	Items    int64  `json:"items"`
}

// longestBar is the number of characters for the resource with the most items.
const longestBar = 40

// printCounts prints how many items each resource has, those with the most first.
func printCounts(ctx context.Context, w io.Writer, form string, from *Source, selection *contents.Selection) error {
	tree, err := from.Resources(ctx, selection, nil, contents.Page{})
	if err != nil {
		return err
	}
	counts := []resourceCount{}
	for _, branch := range tree.Branches {
		resource := contents.ResourceOf(manifest.Ref{Group: branch.Group, Resource: branch.Resource})
		counts = append(counts, resourceCount{Resource: resource, Items: branch.Items})
	}
	slices.SortStableFunc(counts, func(a, b resourceCount) int { return cmp.Compare(b.Items, a.Items) })
	switch form {
	case "json", "yaml":
		return printOne(w, form, counts)
	case "name":
		for _, c := range counts {
			if _, err := fmt.Fprintln(w, layout.OneLine(c.Resource)); err != nil {
				return err
			}
		}
		return nil
	}
	t, err := newTable(w, "RESOURCE", "ITEMS")
	if err != nil {
		return err
	}
	for _, c := range counts {
		bar := strings.Repeat("█", int((c.Items*longestBar+counts[0].Items-1)/counts[0].Items))
		if err := t.row(c.Resource, fmt.Sprint(c.Items), bar); err != nil {
			return err
		}
	}
	if err := t.row("all", fmt.Sprint(tree.Items)); err != nil {
		return err
	}
	return t.end()
}
