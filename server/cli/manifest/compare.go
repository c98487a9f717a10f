package manifest

import (
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cleat-dev/cleat/framework/manifest"
	"github.com/cleat-dev/cleat/server/cli/command"
	"github.com/cleat-dev/cleat/server/cli/status/contents"
	"github.com/cleat-dev/cleat/server/internal/kube/shorten"
	"github.com/cleat-dev/cleat/server/internal/report/layout"
)

func newDiffCommand(a *command.App) *cobra.Command {
	var f flags
	var filters FilterFlags
	var exitCode bool
	cmd := &cobra.Command{
		Use:   "diff BACKUP|FILE BACKUP|FILE",
		Short: "Show in which items two backups differ",
		Long: "Show which items only the second backup has (+), only the first one has (-), and which have other labels, " +
			"annotations, another version\n" +
			"of their API or another UID, because they were created anew (~). The content of items is not compared.",
		Example: "  cleat manifest diff monday tuesday\n  cleat manifest diff monday tuesday " +
			"--include-namespaces shop --exit-code",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeBackups(a, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckForm(f.output, "text", "name"); err != nil {
				return err
			}
			differ := false
			err := compare(cmd, a, &f, &filters, args, func(items []iter.Seq2[*manifest.Item, error]) error {
				changes := func(yield func(manifest.Change, error) bool) {
					for change, err := range manifest.Diff(items[0], items[1]) {
						differ = true
						if !yield(change, err) {
							return
						}
					}
				}
				return printChanges(a.Out, f.output, changes)
			})
			if err == nil && differ && exitCode {
				return command.ErrQuiet
			}
			return err
		},
	}
	f.add(cmd, "text", "name")
	filters.Add(cmd.Flags())
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "exit with 1 if the backups differ")
	return cmd
}

func newOverlapCommand(a *command.App) *cobra.Command {
	var f flags
	var filters FilterFlags
	cmd := &cobra.Command{
		Use:               "overlap BACKUP|FILE BACKUP|FILE...",
		Short:             "Show which items several backups have in common",
		Long:              "Show which items at least two of the backups have, and which of them.",
		Example:           "  cleat manifest overlap shop-nightly cluster-weekly\n  cleat manifest overlap a b c -o name",
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: completeBackups(a, 100),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := command.CheckForm(f.output, "table", "name"); err != nil {
				return err
			}
			return compare(cmd, a, &f, &filters, args, func(items []iter.Seq2[*manifest.Item, error]) error {
				return printShared(a.Out, f.output, args, manifest.Overlap(items...))
			})
		},
	}
	f.add(cmd, "table", "name")
	filters.Add(cmd.Flags())
	return cmd
}

// compare passes the selected items of several sources to use.
func compare(
	cmd *cobra.Command, a *command.App, f *flags, filters *FilterFlags, names []string,
	use func([]iter.Seq2[*manifest.Item, error]) error,
) error {
	open := opener{app: a, downloads: &f.downloads, stdin: cmd.InOrStdin()}
	if _, err := filters.Selection(); err != nil {
		return err
	}
	sources, err := open.openAll(cmd.Context(), names)
	if err != nil {
		return err
	}
	var items []iter.Seq2[*manifest.Item, error]
	for _, s := range sources {
		selection, err := filters.Selection()
		if err != nil {
			return closeAll(err, sources...)
		}
		items = append(items, s.Items(cmd.Context(), selection))
	}
	return closeAll(use(items), sources...)
}

// printChanges prints changes as they come.
func printChanges(w io.Writer, form string, changes iter.Seq2[manifest.Change, error]) error {
	if form == "json" || form == "yaml" {
		return printList(w, form, func(yield func(contents.Change, error) bool) {
			for c, err := range changes {
				if !yield(contents.NewChange(c), err) {
					return
				}
			}
		})
	}
	colours := onTerminal(w)
	counts := map[manifest.ChangeType]int{}
	for c, err := range changes {
		if err != nil {
			return err
		}
		counts[c.Type]++
		text := changeText(c)
		if form == "name" {
			text = contents.NameOf(changed(c).Ref())
		} else if colours {
			text = map[manifest.ChangeType]string{manifest.Added: "\x1b[32m", manifest.Gone: "\x1b[31m",
				manifest.Changed: "\x1b[33m"}[c.Type] + text + "\x1b[0m"
		}
		if _, err := fmt.Fprintln(w, text); err != nil {
			return err
		}
	}
	if form == "name" {
		return nil
	}
	_, err := fmt.Fprintf(w, "%d added, %d gone, %d changed\n", counts[manifest.Added], counts[manifest.Gone],
		counts[manifest.Changed])
	return err
}

// changed returns the item of a change, as it was last.
func changed(c manifest.Change) *manifest.Item {
	if c.After != nil {
		return c.After
	}
	return c.Before
}

// changeText returns a change as a line.
func changeText(c manifest.Change) string {
	name := contents.NameOf(changed(c).Ref())
	switch c.Type {
	case manifest.Added:
		return "+ " + name
	case manifest.Gone:
		return "- " + name
	}
	var what []string
	if c.UID {
		what = append(what, "created anew")
	}
	if c.Version {
		what = append(what, fmt.Sprintf("version %s, was %s", c.After.APIVersion, c.Before.APIVersion))
	}
	if len(c.Labels) > 0 {
		what = append(what, "labels "+values(c.Labels, c.Before.Labels, c.After.Labels))
	}
	if len(c.Annotations) > 0 {
		what = append(what, "annotations "+values(c.Annotations, c.Before.Annotations, c.After.Annotations))
	}
	return "~ " + name + "  " + layout.OneLine(strings.Join(what, "; "))
}

// longestValue is the number of bytes of a value that is shown.
const longestValue = 60

// values returns how the values of keys have changed.
func values(keys []string, before, after map[string]string) string {
	var texts []string
	for _, key := range keys {
		was, had := before[key]
		is, has := after[key]
		switch {
		case !had:
			texts = append(texts, fmt.Sprintf("+%s=%s", key, shorten.Text(is, longestValue)))
		case !has:
			texts = append(texts, "-"+key)
		default:
			texts = append(texts, fmt.Sprintf("%s=%s, was %s", key, shorten.Text(is, longestValue),
				shorten.Text(was, longestValue)))
		}
	}
	return strings.Join(texts, " ")
}

// shared is an item that several backups have, as a document.
type shared struct {
	Item manifest.Ref `json:"item"`
	In   []string     `json:"in"` // as the user has named the backups
	// Same is set if it is one object: it has the same UID in all of them.
	Same bool `json:"same"`
}

func newShared(names []string, s manifest.Shared) shared {
	var doc shared
	uids := map[string]bool{}
	for i, item := range s.Items {
		if item == nil {
			continue
		}
		if len(doc.In) == 0 {
			doc.Item = item.Ref()
		}
		doc.In = append(doc.In, names[i])
		uids[item.UID] = true
	}
	doc.Same = len(uids) == 1 && !uids[""]
	return doc
}

// printShared prints shared items as they come.
func printShared(w io.Writer, form string, names []string, items iter.Seq2[manifest.Shared, error]) error {
	documents := func(yield func(shared, error) bool) {
		for s, err := range items {
			if !yield(newShared(names, s), err) {
				return
			}
		}
	}
	if form == "json" || form == "yaml" {
		return printList(w, form, documents)
	}
	if form == "name" {
		for doc, err := range documents {
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(w, contents.NameOf(doc.Item)); err != nil {
				return err
			}
		}
		return nil
	}
	return printOverlap(w, documents)
}

// printOverlap prints shared items as they come, and then how many each group of backups has in common.
func printOverlap(w io.Writer, items iter.Seq2[shared, error]) error {
	t, err := newTable(w, "RESOURCE", "NAMESPACE", "NAME", "OBJECT", "IN")
	if err != nil {
		return err
	}
	groups := map[string]int{}
	for doc, err := range items {
		if err != nil {
			return err
		}
		object := "created anew"
		if doc.Same {
			object = "same"
		}
		in := strings.Join(doc.In, ", ")
		groups[in]++
		if err := t.row(contents.ResourceOf(doc.Item), doc.Item.Namespace, doc.Item.Name, object, in); err != nil {
			return err
		}
	}
	if err := t.end(); err != nil {
		return err
	}
	if len(groups) == 0 {
		_, err := fmt.Fprintln(w, "The backups have no items in common.")
		return err
	}
	for _, in := range slices.Sorted(maps.Keys(groups)) {
		if _, err := fmt.Fprintf(w, "%s in %s\n", layout.Count(groups[in], "item"), layout.OneLine(in)); err != nil {
			return err
		}
	}
	return nil
}
